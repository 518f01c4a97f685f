"""What makes a schema structural: one place says the type of each field, and checks of values add nothing to it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from gpu_runtime.local.apiserver.custom.structural import Schema, prune
from gpu_runtime.local.apiserver.custom.values import check
from gpu_runtime.local.apiserver.errors import Cause, disallowed, required, wrong

ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
_UNKNOWN_TO_STRUCTURE = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_ONLY_IN_STRUCTURE = {
    "type": "empty",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "additionalProperties": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def children(schema: Schema, field: str) -> Iterator[tuple[str, Schema, str]]:
    """The schemas of what a value holds: where each stands, and the name of the property if it is one."""
    for name, inside in (schema.get("properties") or {}).items():
        yield f"{field}.properties[{name}]", inside, name
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{field}.{name}", schema[name], ""


def convertible(schema: Any) -> bool:
    """Whether the real server tries to see a structure at all; where it does not, it says why elsewhere."""
    if not isinstance(schema, dict):
        return True
    if any(schema.get(name) for name in _UNKNOWN_TO_STRUCTURE):
        return False
    several = isinstance(schema.get("items"), list) and schema["items"]
    if several or schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return False
    inside = [one for _, one, _ in children(schema, "")] + [one for _, one in _combined(schema, "")]
    return all(convertible(one) for one in inside)


def structure_causes(schema: Schema, field: str) -> list[Cause]:
    """Everything for which the schema is not structural."""
    return _invariants(schema, field, ROOT) + [
        cause for at, one in _combined(schema, field) for cause in _complete(one, schema, field, at)
    ]


def _invariants(schema: Schema, field: str, level: str) -> list[Cause]:
    kind = schema.get("type", "")
    embedded, loose = schema.get("x-kubernetes-embedded-resource"), schema.get("x-kubernetes-preserve-unknown-fields")
    either = schema.get("x-kubernetes-int-or-string")
    causes: list[Cause] = []
    if kind == "array" and not isinstance(schema.get("items"), dict):
        causes.append(required(f"{field}.items", "must be specified"))
    for inner, one, _ in children(schema, field):
        causes += _invariants(one, inner, ITEM if inner == f"{field}.items" else FIELD)
    if "additionalProperties" in schema and (level == ROOT or embedded):
        text = "must not be used at the root" if level == ROOT else "must not be used if it is an embedded resource"
        causes.append(disallowed(f"{field}.additionalProperties", text))
    if either and loose:
        text = "must be false if x-kubernetes-int-or-string is true"
        causes.append(wrong(f"{field}.x-kubernetes-preserve-unknown-fields", loose, text))
    if either and embedded:
        text = "must be false if x-kubernetes-int-or-string is true"
        causes.append(wrong(f"{field}.x-kubernetes-embedded-resource", embedded, text))
    causes += _value_causes(schema, field)
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(wrong(f"{field}.type", kind, text) if kind else required(f"{field}.type", text))
    elif not kind and not either and not loose:
        causes.append(required(f"{field}.type", f"must not be empty {level}"))
    if level == ROOT and kind and kind != "object":
        causes.append(wrong(f"{field}.type", kind, "must be object at the root"))
    if embedded and not loose and not schema.get("properties"):
        causes.append(required(f"{field}.properties", "must not be empty of an embedded resource"))
    return causes + _metadata_causes(schema, field, level, embedded=bool(embedded))


def _metadata_causes(schema: Schema, field: str, level: str, *, embedded: bool) -> list[Cause]:
    known = schema.get("properties") or {}
    causes = []
    if level == ROOT or embedded:
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in known and known[name].get("type", "") != wanted:
                inner = f"{field}.properties[{name}].type"
                causes.append(wrong(inner, known[name].get("type", ""), f"must be {wanted}"))
    if level == ROOT and "metadata" in known:
        more = {key: value for key, value in known["metadata"].items() if key not in ("type", "default", "properties")}
        if more or set(known["metadata"].get("properties") or {}) - {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            causes.append(disallowed(f"{field}.properties[metadata]", text))
    return causes


def _combined(schema: Schema, field: str) -> Iterator[tuple[str, Schema]]:
    for name in ("allOf", "anyOf", "oneOf"):
        for at, one in enumerate(schema.get(name) or []):
            yield f"{field}.{name}[{at}]", one
    if "not" in schema:
        yield f"{field}.not", schema["not"]


def _value_causes(schema: Schema, field: str) -> list[Cause]:
    causes = []
    either = schema.get("anyOf") == _INT_OR_STRING
    for at, one in _combined(schema, field):
        if either and at.startswith(f"{field}.anyOf"):
            continue
        first_either = at == f"{field}.allOf[0]" and one.get("anyOf") == _INT_OR_STRING
        causes += _nested({**one, "anyOf": []} if first_either else one, at)
    if pattern := schema.get("pattern"):
        try:
            re.compile(pattern)
        except re.error:
            causes.append(wrong(f"{field}.pattern", pattern, "must be a valid regular expression, but isn't"))
    return causes


def _nested(schema: Schema, field: str) -> list[Cause]:
    """A schema that only checks values: it may not say what the structure says."""
    causes = _value_causes(schema, field)
    for name, inside in (schema.get("properties") or {}).items():
        causes += _nested(inside, f"{field}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        causes += _nested(schema["items"], f"{field}.items")
    for name, what in _ONLY_IN_STRUCTURE.items():
        if name in schema and (what == "undefined" or schema[name]):
            causes.append(disallowed(f"{field}.{name}", f"must be {what} to be structural"))
    if "metadata" in (schema.get("properties") or {}):
        causes.append(disallowed(f"{field}.properties[metadata]", "must not be specified in a nested context"))
    return causes


def _complete(nested: Schema, schema: Any, field: str, at: str) -> list[Cause]:
    """Whatever a value check names must be in the structure."""
    if not isinstance(schema, dict):
        return [required(field, f"because it is defined in {at}")]
    causes = [cause for inner, one in _combined(nested, at) for cause in _complete(one, schema, field, inner)]
    if isinstance(nested.get("items"), dict):
        causes += _complete(nested["items"], schema.get("items"), f"{field}.items", f"{at}.items")
    known = schema.get("properties") or {}
    for name, one in (nested.get("properties") or {}).items():
        inner = f"properties[{name}]"
        causes += _complete(one, known.get(name), f"{field}.{inner}", f"{at}.{inner}")
    return causes


def default_causes(schema: Schema, field: str, *, root: bool = True) -> list[Cause]:
    """Defaults that the schema itself would refuse."""
    causes: list[Cause] = []
    if schema.get("default") is not None:
        unknown: list[str] = []
        prune(copy.deepcopy(schema["default"]), schema, "", unknown)
        if unknown:
            causes.append(wrong(f"{field}.default", schema["default"], "must not have unknown fields"))
        causes += check(schema["default"], schema, f"{field}.default")
    for inner, one, name in children(schema, field):
        if inner != f"{field}.additionalProperties" and not (root and name in ("apiVersion", "kind", "metadata")):
            causes += default_causes(one, inner, root=False)
    return causes
