"""Structural schemas at work: unknown fields pruned, nulls removed, defaults filled in."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

Schema = dict[str, Any]

_TOP = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Schema | None, path: str, unknown: list[str], *, top: bool = False) -> None:
    """Removes fields that the schema does not know, in place, and notes their paths."""
    if schema is None:
        return
    if isinstance(value, dict):
        _prune_object(value, schema, path, unknown, top)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, one in enumerate(value):
            prune(one, schema["items"], f"{path}[{at}]", unknown)


def _prune_object(value: dict[str, Any], schema: Schema, path: str, unknown: list[str], top: bool) -> None:
    properties: dict[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") or others is True
    for key in list(value):
        if top and key in _TOP:
            continue
        inside = f"{path}.{key}" if path else key
        if key in properties:
            prune(value[key], properties[key], inside, unknown)
        elif isinstance(others, dict):
            prune(value[key], others, inside, unknown)
        elif not keeps:
            del value[key]
            unknown.append(inside)


def remove_nulls(value: Any, schema: Schema | None) -> None:
    """Removes nulls that the schema neither allows nor has a default for, in place."""
    if isinstance(value, dict):
        for key in list(value):
            inside = _of_field(key, schema)
            if (
                value[key] is None
                and inside is not None
                and not inside.get("nullable")
                and inside.get("default") is None
            ):
                del value[key]
            else:
                remove_nulls(value[key], inside)
    elif isinstance(value, list):
        items = schema.get("items") if schema else None
        for one in value:
            remove_nulls(one, items if isinstance(items, dict) else None)


def _of_field(key: str, schema: Schema | None) -> Schema | None:
    if schema is None:
        return None
    found = (schema.get("properties") or {}).get(key)
    others = schema.get("additionalProperties")
    return found if found is not None else (others if isinstance(others, dict) else None)


def fill_defaults(value: Any, schema: Schema | None) -> None:
    """Sets missing fields, and nulls where null is not allowed, to their defaults, in place."""
    if not schema:
        return
    if isinstance(value, dict):
        for key, inside in (schema.get("properties") or {}).items():
            default = inside.get("default")
            if default is not None and (key not in value or (value[key] is None and not inside.get("nullable"))):
                value[key] = copy.deepcopy(default)
        for key in value:
            fill_defaults(value[key], _of_field(key, schema))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for one in value:
            fill_defaults(one, schema["items"])


def as_go_writes(value: Any) -> Any:
    """A value with its numbers as Go writes them: whole ones without a fraction, long ones rounded."""
    if isinstance(value, dict):
        return {key: as_go_writes(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_go_writes(one) for one in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(Decimal(repr(value)))
    return value
