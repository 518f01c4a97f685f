"""Requests are judged strictly: every error at once, each with its field and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType

from gpu_runtime.api.kind import Kind
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.api.v1alpha1.fields import ImageReference, PortName, QuantityText, SpecName
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import OperationID
from gpu_runtime.api.validation import FieldError, validate, without_nulls
from unit.api.complete import COMPLETE
from unit.api.schema_cases import as_json, invalid_cases

VALID = {"specName": "g1.1"}
A_QUANTITY = "write a number with an optional suffix, as in 500m, 1.5, 16Gi or 1e3"
DIGEST = f"sha256:{'0' * 64}"


class Change(Struct, kw_only=True):
    """A request in which null says something else than nothing."""

    image: Annotated[str, Meta(max_length=5)] | UnsetType | None = UNSET
    port: Annotated[int, Meta(ge=1, le=9)] | Annotated[str, Meta(max_length=3)] | None = None
    labels: dict[str, Annotated[str, Meta(max_length=3)]] = {}
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0
    when: Any = None


ERRORS: dict[str, tuple[Any, object, list[tuple[str, str]]]] = {
    "nothing is wrong with a minimal request": (GPUUnitSpec, VALID, []),
    "a body that is no object": (GPUUnitSpec, [], [("", "must be an object, not a list")]),
    "no body at all": (GPUUnitSpec, None, [("", "must be an object, not null")]),
    "a missing field": (GPUUnitSpec, {}, [("specName", "is required")]),
    "null in place of a required field": (GPUUnitSpec, {"specName": None}, [("specName", "is required")]),
    "null in place of an optional field": (GPUUnitSpec, VALID | {"image": None, "template": None}, []),
    "an unknown field": (GPUUnitSpec, VALID | {"xyz": 1}, [("xyz", "unknown field")]),
    "a misspelt field": (GPUUnitSpec, VALID | {"imge": "a"}, [("imge", "unknown field; did you mean image?")]),
    "a misspelt field deep inside": (
        GPUUnitSpec,
        VALID | {"template": {"ports": [{"name": "http", "port": 80, "protcol": "TCP"}]}},
        [("template.ports[0].protcol", "unknown field; did you mean protocol?")],
    ),
    "wrong types": (
        GPUUnitSpec,
        {"specName": 1, "gpu": "1", "template": {"command": "python", "envs": ["A"], "ports": {}}},
        [
            ("specName", "must be a string, not a number"),
            ("gpu", "must be a whole number, not a string"),
            ("template.command", "must be a list, not a string"),
            ("template.envs[0]", "must be an object, not a string"),
            ("template.ports", "must be a list, not an object"),
        ],
    ),
    "numbers that are not whole": (
        GPUUnitSpec,
        VALID | {"gpu": 1.5, "template": {"ports": [{"name": "a", "port": 80.0}]}},
        [
            ("gpu", "must be a whole number, not a fraction"),
            ("template.ports[0].port", "must be a whole number, not a number with a decimal point"),
        ],
    ),
    "true is not a number": (GPUUnitSpec, VALID | {"gpu": True}, [("gpu", "must be a whole number, not true")]),
    "one is not true": (
        GPUUnitSpec,
        VALID | {"serverless": {"enabled": 1}},
        [("serverless.enabled", "must be true or false, not a number")],
    ),
    "numbers out of range": (
        GPUUnitSpec,
        VALID | {"gpu": -1, "template": {"ports": [{"name": "a", "port": 65536}]}},
        [("gpu", "must be at least 0"), ("template.ports[0].port", "must be at most 65535")],
    ),
    "a name that is none": (
        GPUUnitSpec,
        VALID | {"storageMounts": [{"name": "No Name", "mountPath": "cache"}]},
        [
            (
                "storageMounts[0].name",
                "must be lower-case letters, digits and '-', beginning and ending with a letter or digit",
            ),
            ("storageMounts[0].mountPath", "must be an absolute path other than '/', without ':'"),
        ],
    ),
    "a value outside an enumeration": (
        GPUUnitSpec,
        VALID | {"template": {"ports": [{"name": "a", "port": 1, "protocol": "HTTP"}]}},
        [("template.ports[0].protocol", "must be one of SCTP, TCP, UDP")],
    ),
    "an empty text": (GPUUnitSpec, {"specName": ""}, [("specName", "must not be empty")]),
    "a long text": (GPUUnitSpec, {"specName": "a" * 64}, [("specName", "must have at most 63 characters, not 64")]),
    "a very long text is measured, not matched": (
        GPUUnitSpec,
        {"specName": "-" * 1_000_000},
        [("specName", "must have at most 63 characters, not 1000000")],
    ),
    "a text with a newline at its end": (
        GPUUnitSpec,
        VALID | {"access": {"primaryPort": "http\n"}},
        [
            (
                "access.primaryPort",
                "must be lower-case letters, digits and single '-' between them, with at least one letter",
            )
        ],
    ),
    "an amount that is none": (
        GPUUnitSpec,
        VALID | {"memory": "not-a-quantity", "cpu": "-1"},
        [
            ("cpu", "'-1' is negative: write an amount of 0 or more"),
            ("memory", f"'not-a-quantity' is not a quantity: {A_QUANTITY}"),
        ],
    ),
    "entries that occur twice": (
        GPUUnitSpec,
        VALID | {"template": {"envs": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}},
        [("template.envs[2].name", "duplicates template.envs[0]: each name may occur once")],
    ),
    "too many entries": (
        GPUUnitSpec,
        VALID | {"storageMounts": [{"name": f"s{i}", "mountPath": f"/m{i}"} for i in range(17)]},
        [("storageMounts", "must have at most 16 entries, not 17")],
    ),
    "a list with too few entries": (
        GPUUnitSpec,
        VALID | {"template": {"readinessProbe": {"exec": {"command": []}}}},
        [("template.readinessProbe.exec.command", "must have at least 1 entry, not 0")],
    ),
    "null where it clears a field": (Change, {"image": None}, []),
    "a text where null would clear": (Change, {"image": "a" * 6}, [("image", "must have at most 5 characters, not 6")]),
    "a number or a text, both in their limits": (Change, {"port": 9}, []),
    "a number or a text, neither": (Change, {"port": []}, [("port", "must be a whole number or a string, not a list")]),
    "a number or a text, number too large": (Change, {"port": 10}, [("port", "must be at most 9")]),
    "a number or a text, text too long": (
        Change,
        {"port": "http"},
        [("port", "must have at most 3 characters, not 4")],
    ),
    "a map with a bad value": (
        Change,
        {"labels": {"a.b/c": "long", "d": 1}},
        [("labels[a.b/c]", "must have at most 3 characters, not 4"), ("labels[d]", "must be a string, not a number")],
    ),
    "a fraction where one is allowed": (Change, {"ratio": 0.5}, []),
    "a fraction out of range": (Change, {"ratio": 1.5}, [("ratio", "must be at most 1")]),
    "anything where anything goes": (Change, {"when": {"a": [1, None]}}, []),
}


@pytest.mark.parametrize(("api_type", "value", "want"), ERRORS.values(), ids=ERRORS)
def test_every_error_is_found_with_its_field(api_type: Any, value: object, want: list[tuple[str, str]]) -> None:
    assert validate(api_type, value) == [FieldError(field, message) for field, message in want]


def every_kind(test: Any) -> Any:
    return pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)(test)


@every_kind
def test_a_complete_object_is_valid(kind: Kind[Any]) -> None:
    assert validate(kind.type, as_json(COMPLETE[kind.kind])) == []


@every_kind
def test_what_the_api_server_refuses_is_refused_here_with_the_same_field(kind: Kind[Any]) -> None:
    for case in invalid_cases(kind):
        if case.constraint.path[0:1] == ("metadata",):
            continue  # names in requests have fields of their own
        fields = [error.field for error in validate(kind.type, case.document)]
        assert any(field.startswith(case.field) for field in fields), (str(case.constraint), fields)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside a JSON document."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


@every_kind
@given(data=st.data())
def test_what_has_no_error_can_be_read_whatever_was_put_where(kind: Kind[Any], data: st.DataObject) -> None:
    document = as_json(COMPLETE[kind.kind])
    *way, last = data.draw(st.sampled_from([place for place in places(document) if place]))
    holder: Any = document
    for key in way:
        holder = holder[key]
    holder[last] = data.draw(json_values)
    if not validate(kind.type, document):
        msgspec.convert(without_nulls(kind.type, document), kind.type)


@given(json_values)
def test_no_json_is_too_strange_to_be_judged(value: object) -> None:
    for kind in KINDS:
        assert validate(kind.type, value)


def test_a_null_that_clears_a_field_is_kept_and_one_that_means_nothing_is_not() -> None:
    assert without_nulls(Change, {"image": None, "port": None, "when": {"a": None}}) == {
        "image": None,
        "when": {"a": None},
    }
    nested = VALID | {"template": {"envs": [{"name": "A", "value": None}], "ports": None}}
    assert without_nulls(GPUUnitSpec, nested) == VALID | {"template": {"envs": [{"name": "A"}]}}


TEXTS: dict[Any, tuple[list[str], list[str]]] = {
    ImageReference: (
        [
            "busybox",
            "python:3.12-slim",
            "a/b",
            "localhost:5000/a:b",
            "r.io/app_x__y--z:V1",
            f"a@{DIGEST}",
            f"a:b@{DIGEST}",
        ],
        ["", "Python", "a b", "a:", ":a", "a/", "/a", "a@sha256:0", "a:b:c", "a//b", "a..b", "http://a/b", "a\n"],
    ),
    PortName: (["http", "a", "8080-tcp", "1-2-a", "p2p"], ["", "80", "1-2", "a--b", "-a", "a-", "A", "a_b"]),
    SpecName: (["g1.1", "A100", "gpu.rtx3080.2x.10c.40g"], ["", "-a", "a-", "a b", ".a", "a/b"]),
    QuantityText: (["1", "16Gi", "500m"], ["", "x", "-1", "1" * 65]),
    OperationID: (["stock-g1-demo-001", "0", "a:b_c.d"], ["", "-a", "a/b", "a b", "a" * 129, "é"]),
}


@pytest.mark.parametrize("api_type", TEXTS)
def test_texts_of_each_form_are_told_from_others(api_type: Any) -> None:
    good, bad = TEXTS[api_type]
    assert [text for text in good if validate(api_type, text)] == []
    assert [text for text in bad if not validate(api_type, text)] == []
