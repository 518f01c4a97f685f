"""Checks values against a structural schema. Every mismatch is a cause with the real server's reason and field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from gpu_runtime.local.apiserver.custom import formats
from gpu_runtime.local.apiserver.custom.structural import Schema
from gpu_runtime.local.apiserver.errors import Cause, Reason, duplicate, quoted, required, too_long, too_many, wrong
from gpu_runtime.local.apiserver.records import same

ABSENT: Any = object()
"""The old value when there is none."""


def check(value: Any, schema: Schema, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Causes for every mismatch. An update does not check unchanged values again."""
    if old is not ABSENT and same(old, value):
        return []
    if value is None and schema.get("nullable"):
        return []
    causes = type_causes(value, schema, path)
    if schema.get("enum") and value not in schema["enum"]:
        causes.append(_unsupported(value, schema["enum"], path))
    if isinstance(value, dict):
        causes += _object(value, schema, path, old)
    elif isinstance(value, list):
        causes += _array(value, schema, path, old)
    elif isinstance(value, str):
        causes += _text(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        causes += _number(value, schema, path)
    return causes + _combined(value, schema, path)


def _field(path: str) -> str:
    return path.lstrip(".") or "<nil>"


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "number"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def type_causes(value: Any, schema: Schema, path: str) -> list[Cause]:
    wanted = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        wanted = "integer,string"
    found = type_name(value)
    if not wanted or found in wanted.split(",") or (wanted == "number" and found == "integer"):
        return []
    if wanted == "integer" and isinstance(value, float) and _is_whole(value):
        return []
    if isinstance(value, (str, list)) and wanted not in ("integer", "number") and formats.known(schema):
        return []  # the real server checks only the format of such a value, and a list has none
    message = f"{_field(path)} in body must be of type {wanted}: {quoted(found)}"
    shown = quoted(found)
    return [Cause(Reason.TYPE_INVALID, f"Invalid value: {shown}: {message}", _field(path))]


def _is_whole(value: float) -> bool:
    """Whether the real server, which compares floats with a tolerance, takes a number for an integer."""
    near = abs(value - int(value)) if -(2**53) <= value < 2**53 else 1.0
    return near == 0 or (abs(value) < 2**53 and int(value) != 0 and near / (abs(value) + abs(int(value))) < 1e-9)


def _unsupported(value: Any, allowed: list[Any], path: str) -> Cause:
    options = ", ".join(json.dumps(one if isinstance(one, str) else json.dumps(one)) for one in allowed)
    text = f"Unsupported value: {quoted(value)}: supported values: {options}"
    return Cause(Reason.NOT_SUPPORTED, text, _field(path))


def _object(value: dict[str, Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    causes = []
    if (least := schema.get("minProperties")) is not None and len(value) < least:
        causes.append(
            wrong(_field(path), len(value), f"{_field(path)} in body should have at least {least} properties")
        )
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        causes.append(too_many(_field(path), len(value), most))
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for key, one in value.items():
        inside = properties.get(key) if key in properties else (others if isinstance(others, dict) else None)
        if inside is not None:
            causes += check(one, inside, f"{path}.{key}", before.get(key, ABSENT))
    return causes + [required(_field(f"{path}.{key}")) for key in schema.get("required") or [] if key not in value]


def _array(value: list[Any], schema: Schema, path: str, old: Any) -> list[Cause]:
    causes = []
    if (least := schema.get("minItems")) is not None and len(value) < least:
        causes.append(wrong(_field(path), len(value), f"{_field(path)} in body should have at least {least} items"))
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        causes.append(too_many(_field(path), len(value), most))
    if isinstance(schema.get("items"), dict):
        find = _correlation(schema, old)
        for at, one in enumerate(value):
            causes += check(one, schema["items"], f"{path}[{at}]", find(one))
    return causes


def _correlation(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Finds the old item for a new item. Only lists with keys have such pairs."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list):
        return lambda _: ABSENT

    def key_of(one: Any) -> str:
        return json.dumps([one.get(key) for key in keys]) if isinstance(one, dict) else ""

    known = {key_of(one): one for one in old}
    return lambda one: known.get(key_of(one), ABSENT)


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text)
    except re.error:
        return None


def _text(value: str, schema: Schema, path: str) -> list[Cause]:
    causes = []
    name = _field(path)
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        causes.append(too_long(name, most))
    if (least := schema.get("minLength")) is not None and len(value) < least:
        causes.append(wrong(name, value, f"{name} in body should be at least {least} chars long"))
    if (pattern := schema.get("pattern")) and (compiled := _pattern(pattern)) and not compiled.search(value):
        causes.append(wrong(name, value, f"{name} in body should match '{pattern}'"))
    judge = formats.known(schema)
    if judge is not None and not judge(value):
        text = f"{name} in body must be of type {schema['format']}: {quoted(value)}"
        causes.append(Cause(Reason.TYPE_INVALID, f"Invalid value: {quoted(value)}: {text}", name))
    return causes


def _number(value: float, schema: Schema, path: str) -> list[Cause]:
    causes = []
    name = _field(path)
    least, most, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        causes.append(wrong(name, value, f"{name} in body should be {words} {most:g}"))
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(wrong(name, value, f"{name} in body should be {words} {least:g}"))
    if factor and value % factor:
        causes.append(wrong(name, value, f"{name} in body should be a multiple of {factor:g}"))
    return causes


def _combined(value: Any, schema: Schema, path: str) -> list[Cause]:
    causes = [cause for part in schema.get("allOf") or [] for cause in check(value, part, path)]
    name = _field(path)
    if schema.get("anyOf") and not any(not check(value, part, path) for part in schema["anyOf"]):
        causes.append(wrong(name, value, f"{name} in body must validate at least one schema (anyOf)"))
    if schema.get("oneOf") and sum(not check(value, part, path) for part in schema["oneOf"]) != 1:
        causes.append(wrong(name, value, f"{name} in body must validate one and only one schema (oneOf)"))
    if schema.get("not") and not check(value, schema["not"], path):
        causes.append(wrong(name, value, f"{name} in body must not validate the schema (not)"))
    return causes


def check_lists(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Duplicates in lists that are sets or maps."""
    causes = []
    if isinstance(value, dict):
        others, known = schema.get("additionalProperties"), schema.get("properties") or {}
        for key, one in value.items():
            if key in known:
                causes += check_lists(one, known[key], f"{path}.{key}")
            elif isinstance(others, dict):
                causes += check_lists(one, others, f"{path}[{key}]")
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            causes += _repeated(value, path)
        elif kind == "map":
            causes += _repeated_keys(value, schema.get("x-kubernetes-list-map-keys") or [], path)
        if isinstance(schema.get("items"), dict):
            for at, one in enumerate(value):
                causes += check_lists(one, schema["items"], f"{path}[{at}]")
    return causes


def _repeated_keys(value: list[Any], keys: list[str], path: str) -> list[Cause]:
    other = next((at for at, one in enumerate(value) if one is not None and not isinstance(one, dict)), None)
    if other is not None:
        return [wrong(_field(f"{path}[{other}]"), value[other], "must be an object for an array of list-type map")]
    items = [one or {} for one in value]
    return _repeated([{key: one[key] for key in keys if key in one} for one in items], path)


def _repeated(keys: list[Any], path: str) -> list[Cause]:
    seen: dict[str, int] = {}
    causes = []
    for at, key in enumerate(keys):
        text = json.dumps(key, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            causes.append(duplicate(_field(f"{path}[{at}]"), key))
    return causes
