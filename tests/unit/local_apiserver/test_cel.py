"""The rules that custom kinds may carry."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.api.v1alpha1.kinds import KINDS
from gpu_runtime.local.apiserver.custom.cel import Rules, Unevaluated, Unsupported, compile_rule
from gpu_runtime.local.apiserver.custom.schema_rules import schema_causes

KEPT = "has(self.x) == has(oldSelf.x) && (!has(self.x) || self.x == oldSelf.x)"

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "n": {"type": "integer"},
        "a": {"type": "string"},
        "t": {"type": "boolean"},
        "any": {"x-kubernetes-int-or-string": True},
        "some": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}

CHANGES = {
    "unchanged": ({"x": 1}, {"x": 1}, True),
    "changed": ({"x": 1}, {"x": 2}, False),
    "removed": ({"x": 1}, {}, False),
    "added": ({}, {"x": 1}, False),
    "never there": ({}, {}, True),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=CHANGES)
def test_a_field_under_the_rule_cannot_change(old: Any, new: Any, want: bool) -> None:
    assert bool(compile_rule(KEPT, SCHEMA)({"self": new, "oldSelf": old})) is want


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("self.a == 'x'", True),
        ("self.any == 3", True),
        ("self.some.a == 'y'", True),
        ('self.a != "x"', False),
        ("self.n == 3", True),
        ("!(self.t == true)", False),
    ],
)
def test_literals_are_compared(rule: str, want: bool) -> None:
    assert compile_rule(rule, SCHEMA)({"self": {"a": "x", "n": 3, "t": True, "any": 3, "some": {"a": "y"}}}) is want


@pytest.mark.parametrize(
    "rule",
    [
        "self.size() > 3",
        "self.all(x, x > 1)",
        "self.a + 1 == 2",
        "self.a > 1",
        "size(self.a) == 1",
        "self.a ==",
        "has(self)",
        "a == b",
        "",
        "self.absent == 1",
        "has(self.some.absent)",
        "self.a == 1",
        "self.some == self.a",
        "self.a && true",
        "!self.n",
        "self.any",
        "self.a",
    ],
)
def test_any_other_rule_is_refused(rule: str) -> None:
    with pytest.raises(Unsupported):
        compile_rule(rule, SCHEMA)


def test_a_field_that_is_not_there_is_an_error_and_not_false() -> None:
    with pytest.raises(Unevaluated):
        compile_rule("self.n == 1", SCHEMA)({"self": {}})


def test_rules_inside_lists_and_maps_are_refused_with_their_definition() -> None:
    ruled = {**SCHEMA, "x-kubernetes-validations": [{"rule": KEPT}]}
    within = {"a": {"type": "array", "items": ruled}, "b": {"type": "object", "additionalProperties": ruled}}
    causes = schema_causes({"type": "object", "properties": within}, "s", status=False)
    assert [cause.field for cause in causes] == [
        "s.properties[a].items.x-kubernetes-validations[0].rule",
        "s.properties[b].additionalProperties.x-kubernetes-validations[0].rule",
    ]
    assert not schema_causes({"type": "object", "properties": {"a": ruled}}, "s", status=False)


def test_a_broken_rule_names_its_field() -> None:
    rule = {"rule": KEPT, "message": "no", "fieldPath": ".x"}
    rules = Rules({"type": "object", "properties": {"spec": {**SCHEMA, "x-kubernetes-validations": [rule]}}})
    (cause,) = rules.check({"spec": {"x": 2}}, {"spec": {"x": 1}})
    assert (cause.field, cause.reason) == ("spec.x", "FieldValueInvalid")
    assert not rules.check({"spec": {"x": 2}}, None)


def test_there_are_custom_kinds_to_evaluate_rules_for() -> None:
    assert KINDS
