"""Strict validation of JSON against a Struct. Reports all errors, each with its field path and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import Struct

from gpu_runtime.api.schema import Node, describe, timestamp


class FieldError(Struct, frozen=True):
    """One invalid field: its path as the client wrote it (`template.ports[0].port`), and what to change."""

    field: str
    message: str


def validate(api_type: Any, value: object) -> list[FieldError]:
    """All errors of `value` (decoded JSON) as an `api_type`; empty when it is valid.

    As on the API server, null in an optional field means that the field is absent.
    """
    return list(_check(describe(api_type), value, ""))


def without_nulls(api_type: Any, value: object) -> object:
    """A valid value without its nulls that mean "absent", so that msgspec can convert it into the Struct."""
    return _pruned(describe(api_type), value)


def _pruned(node: Node, value: object) -> object:
    if isinstance(value, list) and node.items:
        return [_pruned(node.items, item) for item in value]
    if not isinstance(value, dict) or not node.fields:
        return value
    fields = {name: field.node for name, field in node.fields.items() if name in value}
    return {
        name: _pruned(field, value[name]) for name, field in fields.items() if value[name] is not None or field.nullable
    }


def _check(node: Node, value: object, path: str) -> Iterator[FieldError]:
    if node.type == "any" or (value is None and node.nullable):
        return
    if not _has_type(node, value):
        yield FieldError(path, f"must be {_TYPES[node.type][1]}, not {_name(value)}")
    elif isinstance(value, dict):
        yield from _check_entries(node, value, path)
    elif isinstance(value, list):
        yield from _check_items(node, value, path)
    elif isinstance(value, str):
        yield from (FieldError(path, message) for message in _text_errors(node, value))
    elif not isinstance(value, bool):
        assert isinstance(value, int | float)
        yield from (FieldError(path, message) for message in _number_errors(node, value))


def _check_entries(node: Node, value: Mapping[str, object], path: str) -> Iterator[FieldError]:
    yield from (FieldError(path, message) for message in _length_errors(node, len(value), "entry", "entries"))
    if node.type == "map":
        assert node.items is not None
        for key, entry in value.items():
            yield from _check(node.items, entry, f"{path}[{key}]")
        return
    prefix = f"{path}." if path else ""
    for name in value:
        if name not in node.fields:
            yield FieldError(prefix + name, _unknown(name, list(node.fields)))
    for name, field in node.fields.items():
        given = value.get(name)
        if given is None and not (name in value and field.node.nullable):
            if field.required:
                yield FieldError(prefix + name, "is required")
            continue
        yield from _check(field.node, given, prefix + name)


def _check_items(node: Node, value: list[object], path: str) -> Iterator[FieldError]:
    assert node.items is not None
    yield from (FieldError(path, message) for message in _length_errors(node, len(value), "entry", "entries"))
    for index, item in enumerate(value):
        yield from _check(node.items, item, f"{path}[{index}]")
    keys = node.extensions.get("x-kubernetes-list-map-keys")
    if isinstance(keys, list):
        yield from _duplicates(value, keys, path)


def _duplicates(value: list[object], keys: list[str], path: str) -> Iterator[FieldError]:
    first: dict[tuple[object, ...], int] = {}
    for index, item in enumerate(value):
        if not isinstance(item, dict) or any(isinstance(item.get(key), dict | list) for key in keys):
            continue
        identity = tuple(item.get(key) for key in keys)
        if identity in first:
            yield FieldError(
                f"{path}[{index}].{keys[0]}",
                f"duplicates {path}[{first[identity]}]: each {' and '.join(keys)} may occur once",
            )
        first.setdefault(identity, index)


def _text_errors(node: Node, value: str) -> Iterator[str]:
    if node.enum and value not in node.enum:
        yield f"must be one of {', '.join(node.enum)}"
        return
    if value == "" and (node.min_length or 0) > 0:
        yield "must not be empty"
        return
    if wrong_length := list(_length_errors(node, len(value), "character", "characters")):
        yield from wrong_length  # skip the pattern: on a very long text it may take very long
        return
    if node.pattern and not _pattern(node.pattern).search(value):
        yield f"must be {node.hint}" if node.hint else f"must match {node.pattern}"
    if node.format == "date-time":
        yield from _failure(timestamp, value)
    elif node.check:
        yield from _failure(node.check, value)


def _failure(check: Any, value: str) -> Iterator[str]:
    try:
        check(value)
    except ValueError as error:
        yield str(error)


def _number_errors(node: Node, value: int | float) -> Iterator[str]:
    if node.minimum is not None and value < node.minimum:
        yield f"must be at least {node.minimum}"
    if node.maximum is not None and value > node.maximum:
        yield f"must be at most {node.maximum}"
    if node.type == "integer" and node.maximum is None and abs(value) >= 2**63:
        yield "must fit into 64 bits"


def _length_errors(node: Node, length: int, one: str, many: str) -> Iterator[str]:
    if node.min_length is not None and length < node.min_length:
        yield f"must have at least {node.min_length} {one if node.min_length == 1 else many}, not {length}"
    if node.max_length is not None and length > node.max_length:
        yield f"must have at most {node.max_length} {one if node.max_length == 1 else many}, not {length}"


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"unknown field; did you mean {near[0]}?" if near else "unknown field"


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # In Python `$` also matches before a final newline; on the API server it does not.
    return re.compile(re.sub(r"\$$", r"\\Z", pattern), re.ASCII)


_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "object": ((dict,), "an object"),
    "map": ((dict,), "an object"),
    "array": ((list,), "a list"),
    "string": ((str,), "a string"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "int-or-string": ((int, str), "a whole number or a string"),
}


def _has_type(node: Node, value: object) -> bool:
    allowed, _ = _TYPES[node.type]
    return isinstance(value, allowed) and (not isinstance(value, bool) or node.type == "boolean")


def _name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "a string"
        case int():
            return "a number"
        case float():
            return "a fraction" if value % 1 else "a number with a decimal point"
        case list():
            return "a list"
    return "an object"
