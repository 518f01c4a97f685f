"""The kinds, read as a reviewer of Kubernetes APIs would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpu_runtime.api.crd import object_schema
from gpu_runtime.api.kind import Kind
from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.samples import SAMPLES
from gpu_runtime.api.validation import validate
from unit.api.complete import COMPLETE
from unit.api.schema_cases import as_json


def every_kind(test: Any) -> Any:
    return pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)(test)


def fields(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every field below spec and status."""
    for name, field in node.fields.items():
        if path or name in ("spec", "status"):
            here = f"{path}.{name}".removeprefix(".")
            yield here, field.node
            yield from fields(field.node, here)
    if node.items:
        yield from fields(node.items, f"{path}[]")


@every_kind
def test_every_field_says_what_it_is(kind: Kind[Any]) -> None:
    described = dict(fields(describe(kind.type)))
    assert [path for path, node in described.items() if not node.description.endswith(".")] == []


@every_kind
def test_every_text_list_and_number_has_a_limit(kind: Kind[Any]) -> None:
    unlimited = []
    for path, node in fields(describe(kind.type)):
        for one in (node, node.items) if node.items else (node,):
            text = one.type == "string" and not one.enum and one.format != "date-time" and one.max_length is None
            number = one.type == "integer" and (one.minimum is None or (one.maximum is None and one.format != "int64"))
            if text or number or (one.type == "array" and one.max_length is None):
                unlimited.append(path)
    assert unlimited == []


@every_kind
def test_the_complete_object_leaves_no_field_out(kind: Kind[Any]) -> None:
    def paths(schema: Any, value: Any, path: str) -> Iterator[str]:
        for name, field in schema.get("properties", {}).items():
            if name not in value:
                yield f"{path}.{name}"
            else:
                yield from paths(field, value[name], f"{path}.{name}")
        if "items" in schema:
            yield from paths(schema["items"], value[0], f"{path}[0]")

    assert list(paths(object_schema(kind), as_json(COMPLETE[kind.kind]), "")) == []


@every_kind
def test_an_object_survives_the_wire(kind: Kind[Any]) -> None:
    complete = COMPLETE[kind.kind]
    assert msgspec.json.decode(msgspec.json.encode(complete), type=kind.type) == complete


@every_kind
def test_columns_show_fields_that_exist(kind: Kind[Any]) -> None:
    known = {f".{path}" for path, _ in fields(describe(kind.type))} | {".metadata.creationTimestamp"}
    assert [column.path for column in kind.columns if column.path not in known] == []


def test_names_short_names_and_category_are_distinct_and_as_promised() -> None:
    assert [kind.short_names for kind in KINDS] == [("sp",), ("gu",), ("gs",), ("gf",), ("op",)]
    assert {category for kind in KINDS for category in kind.categories} == {"gpu"}


def test_columns_are_the_promised_ones() -> None:
    shown = {kind.kind: [column.name for column in kind.columns if not column.priority] for kind in KINDS}
    assert shown["StockPool"] == ["Spec", "Desired", "Available", "Phase", "Age"]
    assert shown["GPUUnit"] == ["Spec", "Phase", "Access", "Age"]
    assert shown["GPUStorage"] == ["Size", "Capacity", "Phase", "Age"]


@every_kind
def test_the_sample_is_valid(kind: Kind[Any]) -> None:
    sample = SAMPLES[kind.singular]
    assert isinstance(sample, kind.type)
    assert validate(kind.type, as_json(sample)) == []


def test_what_is_absent_stays_absent_when_an_object_is_written_back() -> None:
    document = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": "a"},
        "spec": {"specName": "g1.1"},
        "status": {},
    }
    unit = msgspec.convert(document, GPUUnit)
    assert (unit.spec.template.command, unit.spec.access.scheme, unit.spec.gpu) == ([], "http", 0)
    assert as_json(unit) == document


def test_an_amount_that_is_none_can_be_read_so_that_the_controller_can_say_so() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"specName": "g1.1", "memory": "not-a-quantity"}}
    assert msgspec.convert(document, GPUUnit).spec.memory == "not-a-quantity"
