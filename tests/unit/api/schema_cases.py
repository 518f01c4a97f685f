"""Every constraint of a generated schema, and for each one an object that breaks it.

The constraints are found by walking the schema, so that a new field or limit brings its own case, and a keyword that
this module does not know fails the walk instead of going untested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec

from gpu_runtime.api.crd import object_schema
from gpu_runtime.api.kind import Kind
from unit.api.complete import COMPLETE

Schema = dict[str, Any]
Path = tuple[str | int, ...]

# Keywords that promise something to readers and clients but refuse nothing.
_SILENT = {
    "description",
    "default",
    "properties",
    "items",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
}
_RULE = "x-kubernetes-validations"
# Types that the server itself insists on, before it looks at our schema.
_SERVER_OWNED = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")}


@dataclass(frozen=True)
class Constraint:
    """One thing that a schema refuses: a keyword at a place, and for `required` and rules the field they are about."""

    path: Path
    keyword: str
    about: str = ""

    def __str__(self) -> str:
        return f"{field_name(self.path)} {self.keyword} {self.about}".strip()


@dataclass(frozen=True)
class Case:
    """An object that breaks one constraint. `field` is what the refusal must name."""

    constraint: Constraint
    document: Schema
    field: str


def field_name(path: Path) -> str:
    """The path as the API server writes it: `spec.template.ports[0].port`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def as_json(value: object) -> Schema:
    """The object as a client sends it."""
    document: Schema = json.loads(msgspec.json.encode(value))
    return document


def constraints(kind: Kind[Any]) -> set[Constraint]:
    """All that the kind's schema refuses."""
    return set(_walk(object_schema(kind), ()))


def _walk(schema: Schema, path: Path) -> Iterator[Constraint]:
    for keyword in schema:
        if keyword in _SILENT or (keyword == "type" and (not path or path in _SERVER_OWNED)):
            continue
        if keyword == "required":
            yield from (Constraint(path, keyword, name) for name in schema[keyword])
        elif keyword == _RULE:
            yield from (Constraint(path, keyword, rule["fieldPath"].removeprefix(".")) for rule in schema[keyword])
        elif keyword in _BREAKING:
            yield Constraint(path, keyword)
        else:
            raise AssertionError(f"no case for {keyword} at {field_name(path)}")
    for name, field in schema.get("properties", {}).items():
        yield from _walk(field, (*path, name))
    if "items" in schema:
        yield from _walk(schema["items"], (*path, 0))


def invalid_cases(kind: Kind[Any]) -> list[Case]:
    """One broken object for each constraint that is about a single object: all but the rules on updates."""
    schema, complete = object_schema(kind), as_json(COMPLETE[kind.kind])
    found = sorted(constraints(kind), key=str)
    return [_case(one, schema, complete) for one in found if one.keyword != _RULE]


def rules(kind: Kind[Any]) -> set[Constraint]:
    """The constraints on updates: fields that keep their value."""
    return {one for one in constraints(kind) if one.keyword == _RULE}


def _case(constraint: Constraint, schema: Schema, complete: Schema) -> Case:
    document = deepcopy(complete)
    path = constraint.path
    if constraint.keyword == "required":
        path = (*path, constraint.about)
        holder = _at(document, path[:-1])
        del holder[path[-1]]
    else:
        holder = _at(document, path[:-1])
        holder[path[-1]] = _BREAKING[constraint.keyword](_schema_at(schema, path), holder[path[-1]])
        if constraint.keyword == "x-kubernetes-list-map-keys":
            path = (*path, 1)
    return Case(constraint, document, field_name(path))


def _at(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document


def _schema_at(schema: Schema, path: Path) -> Schema:
    for part in path:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    return schema


def _another_type(schema: Schema, value: Any) -> Any:
    return 7 if schema["type"] == "string" else "text"


def _another_text(schema: Schema, value: Any) -> str:
    """A text of legal length that the pattern refuses; the first ones would be legal as names of other objects."""
    for text in ("a.b", "1a", "A b", "-", "0"):
        short_enough = len(text) <= schema.get("maxLength", 1000)
        if short_enough and not re.search(schema["pattern"], text):
            return text
    raise AssertionError(f"nothing here breaks {schema['pattern']}")


def _another_format(schema: Schema, value: Any) -> Any:
    return {"date-time": "yesterday", "int32": 2**31, "int64": 2**63}[schema["format"]]


_BREAKING: dict[str, Callable[[Schema, Any], Any]] = {
    "type": _another_type,
    "x-kubernetes-int-or-string": lambda schema, value: True,
    "format": _another_format,
    "enum": lambda schema, value: "NoSuchValue",
    "pattern": _another_text,
    "minLength": lambda schema, value: "a" * (schema["minLength"] - 1),
    "maxLength": lambda schema, value: "a" * (schema["maxLength"] + 1),
    "minimum": lambda schema, value: schema["minimum"] - 1,
    "maximum": lambda schema, value: schema["maximum"] + 1,
    "minItems": lambda schema, value: value[: schema["minItems"] - 1],
    "maxItems": lambda schema, value: [value[0]] * (schema["maxItems"] + 1),
    "x-kubernetes-list-map-keys": lambda schema, value: [value[0], value[0]],
}
