"""Custom kinds: pruning, defaults, validation."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.local.apiserver.custom.kind import kinds_of
from gpu_runtime.local.apiserver.custom.structural import fill_defaults, prune, remove_nulls
from gpu_runtime.local.apiserver.custom.values import check, check_lists

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "note": {"type": "string", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "limits": {"type": "object", "default": {}, "properties": {"cpu": {"type": "integer", "default": 1}}},
                "ports": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 5}},
                    },
                },
            },
        }
    },
}


def test_unknown_fields_are_pruned_except_where_they_are_kept() -> None:
    document = {"spec": {"size": 1, "x": 1, "free": {"y": 1}, "ports": [{"name": "a", "z": 1}]}, "more": 1}
    unknown: list[str] = []
    prune(document, SCHEMA, "", unknown, top=True)
    assert document == {"spec": {"size": 1, "free": {"y": 1}, "ports": [{"name": "a"}]}}
    assert unknown == ["spec.x", "spec.ports[0].z", "more"]


def test_defaults_are_filled_into_what_is_there_and_defaults_of_defaults_too() -> None:
    document: dict[str, Any] = {"spec": {"size": 1, "color": None, "note": None}}
    remove_nulls(document, SCHEMA)
    fill_defaults(document, SCHEMA)
    assert document == {"spec": {"size": 1, "color": "red", "note": None, "limits": {"cpu": 1}}}


CAUSES: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "missing": ({"spec": {}}, [("spec.size", "FieldValueRequired")]),
    "too large": ({"spec": {"size": 11}}, [("spec.size", "FieldValueInvalid")]),
    "wrong type": ({"spec": {"size": "1"}}, [("spec.size", "FieldValueTypeInvalid")]),
    "not of the enum": ({"spec": {"size": 1, "color": "pink"}}, [("spec.color", "FieldValueNotSupported")]),
    "null": ({"spec": {"size": None}}, [("spec.size", "FieldValueTypeInvalid")]),
    "too many": (
        {"spec": {"size": 1, "ports": [{"name": str(n)} for n in range(3)]}},
        [("spec.ports", "FieldValueTooMany")],
    ),
    "inside a list": ({"spec": {"size": 1, "ports": [{"n": 9}]}}, [("spec.ports[0].n", "FieldValueInvalid")]),
    "beyond 64 bits": (
        {"spec": {"size": 2**64}},
        [("spec.size", "FieldValueTypeInvalid"), ("spec.size", "FieldValueInvalid")],
    ),
}


@pytest.mark.parametrize(("document", "want"), CAUSES.values(), ids=CAUSES)
def test_faults_are_named_by_field_and_reason(document: Any, want: list[tuple[str, str]]) -> None:
    assert [(cause.field, cause.reason) for cause in check(document, SCHEMA)] == want


def test_an_update_does_not_judge_what_it_leaves_alone() -> None:
    old = {"spec": {"size": 99, "ports": [{"name": "a", "n": 9}]}}
    new = {"spec": {"size": 99, "color": "blue", "ports": [{"name": "b"}, {"name": "a", "n": 9}]}}
    assert check(new, SCHEMA, old=old) == []
    assert check({"spec": {"size": 98}}, SCHEMA, old=old)


def test_a_list_with_keys_has_each_once() -> None:
    (cause,) = check_lists({"spec": {"ports": [{"name": "a"}, {"name": "a"}]}}, SCHEMA)
    assert (cause.field, cause.reason) == ("spec.ports[1]", "FieldValueDuplicate")


def test_versions_are_served_in_the_order_that_clients_prefer() -> None:
    names = {"kind": "Widget", "plural": "widgets"}
    versions = [
        {"name": name, "served": True, "storage": name == "v1"} for name in ("v1alpha1", "v1", "v2beta1", "v10")
    ]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    assert [kind.version for kind in kinds_of({"metadata": {}, "spec": spec})] == ["v10", "v1", "v2beta1", "v1alpha1"]
