"""The one rule that custom kinds may carry."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.api.crd import definition
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.local.apiserver.custom.immutability import Rules, Unsupported, rule_of
from gpu_runtime.local.apiserver.custom.kind import kinds_of
from gpu_runtime.local.apiserver.custom.schema_rules import schema_causes

KEPT = "has(self.x) == has(oldSelf.x) && (!has(self.x) || self.x == oldSelf.x)"
SCHEMA: Any = {"type": "object", "properties": {"x": {"type": "integer"}}}

CHANGES = {
    "unchanged": ({"x": 1}, {"x": 1}, 0),
    "changed": ({"x": 1}, {"x": 2}, 1),
    "removed": ({"x": 1}, {}, 1),
    "added": ({}, {"x": 1}, 1),
    "never there": ({}, {}, 0),
    "without its object": (None, {"x": 1}, 0),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=CHANGES)
def test_a_field_under_the_rule_cannot_change(old: Any, new: Any, want: int) -> None:
    ruled = {**SCHEMA, "x-kubernetes-validations": [{"rule": KEPT, "message": "no", "fieldPath": ".x"}]}
    rules = Rules({"type": "object", "properties": {"spec": ruled}})
    causes = rules.check({"spec": new}, {"spec": old} if old is not None else {})
    assert [(cause.field, cause.reason) for cause in causes] == want * [("spec.x", "FieldValueInvalid")]


def test_a_field_of_another_type_is_told_where_the_rule_stands() -> None:
    (cause,) = Rules({**SCHEMA, "x-kubernetes-validations": [{"rule": KEPT}]}).check({"x": "1"}, {"x": 1})
    assert (cause.field, cause.reason) == ("<nil>", "FieldValueInvalid")


@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "self.x == oldSelf.x"},
        {"rule": "self == oldSelf"},
        {"rule": KEPT.replace("oldSelf.x)", "oldSelf.y)", 1)},
        {"rule": f"{KEPT} || true"},
        {"rule": "self.size() > 3"},
        {"rule": ""},
        {},
        {"rule": KEPT, "reason": "FieldValueForbidden"},
        {"rule": KEPT, "messageExpression": "'x'"},
        {"rule": KEPT, "optionalOldSelf": True},
    ],
)
def test_any_other_rule_is_refused(rule: Any) -> None:
    with pytest.raises(Unsupported):
        rule_of(rule, SCHEMA)


def test_a_rule_may_be_written_over_several_lines() -> None:
    assert rule_of({"rule": KEPT.replace(" && ", "\n  && ")}, SCHEMA).field == "x"


def test_rules_inside_lists_and_maps_are_refused_with_their_definition() -> None:
    ruled = {**SCHEMA, "x-kubernetes-validations": [{"rule": KEPT}]}
    within = {"a": {"type": "array", "items": ruled}, "b": {"type": "object", "additionalProperties": ruled}}
    causes = schema_causes({"type": "object", "properties": within}, "s")
    assert [cause.field for cause in causes] == [
        "s.properties[a].items.x-kubernetes-validations[0].rule",
        "s.properties[b].additionalProperties.x-kubernetes-validations[0].rule",
    ]
    assert not schema_causes({"type": "object", "properties": {"a": ruled}}, "s")


WRONG_SCHEMAS: dict[str, tuple[Any, list[str]]] = {
    "a type that is none": ({"type": "text"}, ["s.properties[a].type"]),
    "no type": ({"description": "words"}, ["s.properties[a].type"]),
    "a reference": ({"type": "object", "$ref": "#/x"}, ["s.properties[a].$ref"]),
    "items of a type that is none": ({"type": "array", "items": {"type": "text"}}, ["s.properties[a].items.type"]),
    "either type": ({"x-kubernetes-int-or-string": True}, []),
    "any type": ({"x-kubernetes-preserve-unknown-fields": True}, []),
}


@pytest.mark.parametrize(("schema", "want"), WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS)
def test_a_schema_says_the_type_of_each_field_itself(schema: Any, want: list[str]) -> None:
    found = schema_causes({"type": "object", "properties": {"a": schema}}, "s")
    assert [cause.field for cause in found] == want


def test_the_rules_of_our_own_kinds_are_evaluated() -> None:
    assert KINDS
    for kind in KINDS:
        assert kinds_of({"metadata": {}, **definition(kind)})
