"""Fields that cannot change after creation, as rules that the API server evaluates on every update."""

from __future__ import annotations


def immutable(*fields: str, because: str) -> dict[str, object]:
    """Extra schema for the object that holds `fields`: they cannot be set, changed or removed later.

    The rule stands on the parent: one on an optional field itself is not evaluated when the field is removed, so that
    removing it first and setting it again would get around it. Every rule keeps this form: the embedded API server
    evaluates no other.
    """
    return {"x-kubernetes-validations": [_rule(field, because) for field in fields]}


def _rule(field: str, because: str) -> dict[str, object]:
    return {
        "rule": f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        "message": f"{field} cannot be changed: {because}",
        "fieldPath": f".{field}",
    }
