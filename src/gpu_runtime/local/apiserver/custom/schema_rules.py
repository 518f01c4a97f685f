"""The schema of a definition: what the real server refuses in it, and where it says so."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpu_runtime.local.apiserver.custom.cel import Rule, Unsupported, type_of
from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.custom.structure import children, convertible, default_causes, structure_causes
from gpu_runtime.local.apiserver.errors import Cause, disallowed, required, unsupported, wrong

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_META = ("metadata", "kind", "apiVersion")
_REASONS = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]
_AT_ROOT = {
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items"),
    *("properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
}
_NOT_SUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['([^']+)'\]")


@dataclass(frozen=True)
class Place:
    """Where in a schema we are, as far as it matters for what may stand there."""

    root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""
    in_list: bool = False
    rules: bool = True
    """Whether rules are looked at: not in a schema whose structure is wrong."""
    in_rules: bool = False
    untyped: bool = False
    """Under a rule and under a type that is none: rules below cannot be typed."""


def schema_causes(schema: Schema, field: str, *, status: bool) -> list[Cause]:
    """Everything wrong with the schema of one version."""
    causes = _root_causes(schema, field) if status else []
    if schema.get("nullable"):
        causes.append(disallowed(f"{field}.nullable", "nullable cannot be true at the root"))
    shape: list[Cause] | None = None
    if convertible(schema):
        shape = structure_causes(schema, field) or default_causes(schema, field)
        causes += shape
    found, rules = _judged(schema, field, Place(root=True, rules=shape == []))
    return causes + found + rules


def _root_causes(schema: Schema, field: str) -> list[Cause]:
    """With a status subresource the root holds fields and little else."""
    if not ({"id", "$schema", "$ref"} & set(schema)) and schema.get("type", "object") != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [wrong(f"{field}.type", schema["type"], text)]
    if set(schema) - _AT_ROOT:
        text = "only some fields are allowed at the root of the schema if the status subresource is enabled"
        return [wrong(field, schema, text)]
    return []


def _judged(schema: Schema, field: str, place: Place) -> tuple[list[Cause], list[Cause]]:
    """Faults of a schema and all below, and apart from them those of its rules."""
    causes = _unsupported(schema, field, place)
    rules: list[Cause] = []
    has_rules = bool(schema.get("x-kubernetes-validations"))
    below = replace(place, root=False, in_rules=place.in_rules or has_rules)
    if below.in_rules and not type_of(schema):
        below = replace(below, untyped=True)
    for inner, one, name in children(schema, field):
        found, broken = _judged(one, inner, _inside(schema, place, below, name, inner == f"{field}.items"))
        causes, rules = causes + found, rules + broken
    for name in ("allOf", "oneOf", "anyOf"):
        for at, one in enumerate(schema.get(name) or []):
            causes += _judged(one, f"{field}.{name}[{at}]", replace(below, rules=False))[0]
    if "not" in schema:
        causes += _judged(schema["not"], f"{field}.not", replace(below, rules=False))[0]
    if isinstance(schema.get("items"), list):
        for at, one in enumerate(schema["items"]):
            causes += _judged(one, f"{field}.items[{at}]", replace(below, rules=False))[0]
    causes += _extensions(schema, field) + _list_causes(schema, field) + _rule_causes(schema, field)
    if has_rules and not causes and place.rules:
        rules = rules + _compiled(schema, field, place)
    return causes, rules


def _inside(schema: Schema, place: Place, below: Place, name: str, is_item: bool) -> Place:
    if not name:
        in_map = "inside additionalProperties applying to object metadata" if place.in_metadata and not is_item else ""
        return replace(below, in_list=True, no_defaults=below.no_defaults or in_map)
    if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
        why = f"in top-level {name}" if place.root else below.no_defaults
        return replace(below, in_metadata=True, no_defaults=why)
    return below


def _unsupported(schema: Schema, field: str, place: Place) -> list[Cause]:
    causes = []
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        causes.append(unsupported(f"{field}.type", kind, _TYPES))
    if kind == "null":
        causes.append(disallowed(f"{field}.type", "type cannot be set to null, use nullable as an alternative"))
    if schema.get("default") is not None and place.no_defaults:
        causes.append(disallowed(f"{field}.default", f"must not be set {place.no_defaults}"))
    causes += [disallowed(f"{field}.{name}", f"{name} is not supported") for name in _NOT_SUPPORTED if name in schema]
    if isinstance(schema.get("items"), list) and schema["items"]:
        causes.append(disallowed(f"{field}.items", "items must be a schema object and not an array"))
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        causes.append(disallowed(f"{field}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(disallowed(f"{field}.uniqueItems", text))
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(disallowed(f"{field}.additionalProperties", text))
    return causes


def _extensions(schema: Schema, field: str) -> list[Cause]:
    causes = []
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        causes.append(wrong(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    for name, wanted, allowed in (
        ("x-kubernetes-map-type", "object", ["atomic", "granular"]),
        ("x-kubernetes-list-type", "array", ["atomic", "map", "set"]),
    ):
        if name not in schema:
            continue
        kind = schema.get("type", "")
        if kind != wanted:
            text = f"must be {wanted} if {name} is specified"
            causes.append(wrong(f"{field}.type", kind, text) if kind else required(f"{field}.type", text))
        if schema[name] not in allowed:
            causes.append(unsupported(f"{field}.{name}", schema[name], allowed))
    return causes


def _list_causes(schema: Schema, field: str) -> list[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    causes: list[Cause] = []
    if keys and kind != "map":
        inner, text = f"{field}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        causes.append(required(inner, text) if kind is None else wrong(inner, kind, text))
    if kind == "map":
        causes += _map_causes(keys, items, field)
    if kind == "set" and schema.get("type") == "array" and isinstance(items, dict):
        causes += _set_causes(items, field)
    if kind in ("map", "set") and isinstance(items, dict) and items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        causes.append(disallowed(f"{field}.items.nullable", text))
    return causes


def _set_causes(items: Schema, field: str) -> list[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        return [wrong(f"{field}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"], text)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [wrong(f"{field}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), text)]
    return []


def _map_causes(keys: list[str], items: object, field: str) -> list[Cause]:
    named = f"{field}.x-kubernetes-list-map-keys"
    causes = [] if keys else [required(named, "must not be empty if x-kubernetes-list-type is map")]
    if items is None:
        return [*causes, required(f"{field}.items", "must have a schema if x-kubernetes-list-type is map")]
    if not isinstance(items, dict):
        text = "must only have a single schema if x-kubernetes-list-type is map"
        return [*causes, wrong(f"{field}.items", items, text)]
    known = items.get("properties") or {}
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        causes.append(wrong(f"{field}.items.type", items.get("type", ""), text))
    else:
        for at, key in enumerate(keys):
            if key not in known:
                causes.append(wrong(named, keys, "entries must all be names of item properties"))
            elif known[key].get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                causes.append(wrong(f"{field}.items.properties[{key}].type", known[key]["type"], text))
            if key in keys[:at]:
                causes.append(wrong(named, keys, "must not contain duplicate entries"))
    for key in keys:
        inner = f"{field}.items.properties[{key}]"
        if key in known and key not in (items.get("required") or []) and known[key].get("default") is None:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            causes.append(required(f"{inner}.default", text))
        if key in known and known[key].get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            causes.append(disallowed(f"{inner}.nullable", text))
    return causes


def _rule_causes(schema: Schema, field: str) -> list[Cause]:
    """What is wrong with rules as text."""
    causes = []
    for at, rule in enumerate(schema.get("x-kubernetes-validations") or []):
        where = f"{field}.x-kubernetes-validations[{at}]"
        text, message = rule.get("rule", "").strip(), rule.get("message", "")
        if not text:
            causes.append(required(f"{where}.rule", "rule is not specified"))
        elif message and not message.strip():
            causes.append(wrong(f"{where}.message", message, "must be non-empty if specified"))
        elif "\n" in message.strip():
            causes.append(wrong(f"{where}.message", message, "must not contain line breaks"))
        elif "\n" in text and not message:
            causes.append(required(f"{where}.message", "message must be specified if rule contains line breaks"))
        if "reason" in rule and rule["reason"] not in _REASONS:
            causes.append(unsupported(f"{where}.reason", rule["reason"], _REASONS))
        if rule.get("fieldPath") and not leads_to(schema, rule["fieldPath"]):
            causes.append(wrong(f"{where}.fieldPath", rule["fieldPath"], "must be a valid path"))
    return causes


def leads_to(schema: Schema, path: str) -> Schema | None:
    """The schema at a path such as `.spec['size']`; None where there is none."""
    at, found = 0, schema
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        name, at = step[1] or step[2], step.end()
        others = found.get("additionalProperties")
        inner = (found.get("properties") or {}).get(name, others if isinstance(others, dict) else None)
        if inner is None:
            return None
        found = inner
    return found


def _compiled(schema: Schema, field: str, place: Place) -> list[Cause]:
    """Rules that cannot be evaluated: wrong ones as the real server says it, and more than we know of CEL."""
    where = f"{field}.x-kubernetes-validations"
    if place.untyped:
        return [Cause("InternalError", "Internal error: failed to construct type information for rules", where)]
    causes = []
    for at, rule in enumerate(schema["x-kubernetes-validations"]):
        try:
            if place.in_list:
                raise Unsupported("the embedded API server evaluates no rules inside lists and maps")
            Rule(rule, schema, root=place.root)
        except Unsupported as error:
            causes.append(wrong(f"{where}[{at}].rule", rule, str(error)))
    return causes
