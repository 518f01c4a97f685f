"""The rules that custom kinds may carry."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.api.v1alpha1.kinds import KINDS
from gpu_runtime.local.apiserver.custom.cel import NoSuchKey, Rules, Unsupported, compile_rule

KEPT = "has(self.x) == has(oldSelf.x) && (!has(self.x) || self.x == oldSelf.x)"

CHANGES = {
    "unchanged": ({"x": 1}, {"x": 1}, True),
    "changed": ({"x": 1}, {"x": 2}, False),
    "removed": ({"x": 1}, {}, False),
    "added": ({}, {"x": 1}, False),
    "never there": ({}, {}, True),
}


@pytest.mark.parametrize(("old", "new", "want"), CHANGES.values(), ids=CHANGES)
def test_a_field_under_the_rule_cannot_change(old: Any, new: Any, want: bool) -> None:
    assert bool(compile_rule(KEPT)({"self": new, "oldSelf": old})) is want


@pytest.mark.parametrize(
    ("rule", "want"),
    [("self.a == 'x'", True), ('self.a != "x"', False), ("self.n == 3", True), ("!(self.t == true)", False)],
)
def test_literals_are_compared(rule: str, want: bool) -> None:
    assert compile_rule(rule)({"self": {"a": "x", "n": 3, "t": True}}) is want


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
    ],
)
def test_any_other_rule_is_refused(rule: str) -> None:
    with pytest.raises(Unsupported):
        compile_rule(rule)


def test_a_field_that_is_not_there_is_an_error_and_not_false() -> None:
    with pytest.raises(NoSuchKey):
        compile_rule("self.a == 1")({"self": {}})


def test_rules_inside_lists_are_refused() -> None:
    rule = [{"rule": KEPT}]
    with pytest.raises(Unsupported):
        Rules({"properties": {"a": {"type": "array", "items": {"type": "object", "x-kubernetes-validations": rule}}}})


def test_a_broken_rule_names_its_field() -> None:
    rules = Rules(
        {"properties": {"spec": {"x-kubernetes-validations": [{"rule": KEPT, "message": "no", "fieldPath": ".x"}]}}}
    )
    (cause,) = rules.check({"spec": {"x": 2}}, {"spec": {"x": 1}})
    assert (cause.field, cause.reason) == ("spec.x", "FieldValueInvalid")
    assert not rules.check({"spec": {"x": 2}}, None)


def test_there_are_custom_kinds_to_evaluate_rules_for() -> None:
    assert KINDS
