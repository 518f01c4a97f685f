"""Checks types, references and rules in the schema of a definition. The real server, which CI runs, checks more."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_runtime.local.apiserver.custom.immutability import Unsupported, rule_of
from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.errors import Cause, disallowed, required, unsupported, wrong

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_ANY_TYPE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def schema_causes(schema: Schema, field: str) -> list[Cause]:
    """The errors in the schema of one version."""
    kind = schema.get("type", "object")
    causes = [] if kind == "object" else [wrong(f"{field}.type", kind, "must be object at the root")]
    return causes + _judged(schema, field, in_list=False)


def _judged(schema: Schema, field: str, *, in_list: bool) -> list[Cause]:
    causes = []
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        causes.append(unsupported(f"{field}.type", kind, _TYPES))
    elif not kind and not any(schema.get(name) for name in _ANY_TYPE):
        causes.append(required(f"{field}.type", "must not be empty"))
    if "$ref" in schema:
        causes.append(disallowed(f"{field}.$ref", "$ref is not supported"))
    for at, rule in enumerate(schema.get("x-kubernetes-validations") or []):
        try:
            if in_list:
                raise Unsupported("the embedded API server evaluates no rules inside lists and maps")
            rule_of(rule, schema)
        except Unsupported as error:
            causes.append(wrong(f"{field}.x-kubernetes-validations[{at}].rule", rule, str(error)))
    for inner, one, repeated in _children(schema, field):
        causes += _judged(one, inner, in_list=in_list or repeated)
    return causes


def _children(schema: Schema, field: str) -> Iterator[tuple[str, Schema, bool]]:
    """The schemas inside a schema, each with its path and with whether it applies to several values."""
    for name, inside in (schema.get("properties") or {}).items():
        yield f"{field}.properties[{name}]", inside, False
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{field}.{name}", schema[name], True
