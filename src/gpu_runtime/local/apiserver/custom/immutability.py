"""The one validation rule that our CRDs use: a field that cannot change after its object was created.

Any other rule is refused when the CRD is created: a rule that is not evaluated would be a promise that is not kept.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.custom.values import type_causes
from gpu_runtime.local.apiserver.errors import Cause, Reason
from gpu_runtime.local.apiserver.records import same

_KEPT = re.compile(r"has\(self\.(\w+)\) == has\(oldSelf\.\1\) && \(!has\(self\.\1\) \|\| self\.\1 == oldSelf\.\1\)")
_ABSENT = object()


class Unsupported(ValueError):
    """The rule is invalid, or of a form that is not evaluated."""


class Rule(NamedTuple):
    """A field of the object at `path` that cannot be set, changed or removed."""

    path: tuple[str, ...]
    field: str
    message: str
    shown_at: str
    schema: Schema
    """The schema of the field."""


def rule_of(raw: dict[str, Any], schema: Schema, path: tuple[str, ...] = ()) -> Rule:
    """Parses a rule about the object of this schema. Raises Unsupported for any other form of rule."""
    text = " ".join(raw.get("rule", "").split())
    found = _KEPT.fullmatch(text)
    if found is None or set(raw) - {"rule", "message", "fieldPath"}:
        raise Unsupported(f"the embedded API server evaluates rules that keep a field as it is, and no other: {text}")
    shown_at = ".".join(path) + raw.get("fieldPath", "")
    field = (schema.get("properties") or {}).get(found[1], {})
    message = raw.get("message") or f"failed rule: {text}"
    return Rule(path, found[1], message, shown_at.lstrip(".") or "<nil>", field)


class Rules:
    """All rules of a schema. A definition with rules inside lists or maps was refused earlier."""

    def __init__(self, schema: Schema) -> None:
        self._rules: list[Rule] = []
        self._collect(schema, ())

    def __bool__(self) -> bool:
        return bool(self._rules)

    def _collect(self, schema: Schema, path: tuple[str, ...]) -> None:
        self._rules += [rule_of(one, schema, path) for one in schema.get("x-kubernetes-validations") or []]
        for name, inside in (schema.get("properties") or {}).items():
            self._collect(inside, (*path, name))

    def check(self, new: Any, old: Any) -> list[Cause]:
        """Causes for the rules that an update breaks. A create breaks none: there is no old value."""
        return [cause for rule in self._rules for cause in _judged(rule, _at(new, rule.path), _at(old, rule.path))]


def _judged(rule: Rule, now: Any, before: Any) -> list[Cause]:
    if not isinstance(now, dict) or not isinstance(before, dict):
        return []
    was, is_now = before.get(rule.field, _ABSENT), now.get(rule.field, _ABSENT)
    if _ABSENT not in (was, is_now) and type_causes(is_now, rule.schema, ""):
        # The real server evaluates rules even on values of a wrong type, and reports them like this.
        text = f"invalid data, expected {rule.schema.get('type')} evaluating rule: {rule.message}"
        return [Cause(Reason.INVALID, f'Invalid value: "object": {text}', ".".join(rule.path) or "<nil>")]
    if (was is is_now is _ABSENT) or (_ABSENT not in (was, is_now) and same(was, is_now)):
        return []
    return [Cause(Reason.INVALID, f"Invalid value: {rule.message}", rule.shown_at)]


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
