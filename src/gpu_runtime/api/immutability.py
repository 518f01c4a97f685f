"""Immutable fields: CEL rules that the API server evaluates on every update."""

from __future__ import annotations


def immutable(*fields: str, because: str) -> dict[str, object]:
    """Extra schema for the parent object of `fields`: these cannot be set, changed or removed after creation.

    The rule must be on the parent. The API server does not evaluate a rule on an optional field when that field is
    removed, so a client could remove the field and then set a new value. Keep the form of these rules: the embedded
    API server evaluates only this form.
    """
    return {"x-kubernetes-validations": [_rule(field, because) for field in fields]}


def _rule(field: str, because: str) -> dict[str, object]:
    return {
        "rule": f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        "message": f"{field} cannot be changed: {because}",
        "fieldPath": f".{field}",
    }
