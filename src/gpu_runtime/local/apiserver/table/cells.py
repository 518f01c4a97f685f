"""The columns of a kind and the cells of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpu_runtime.local.apiserver.builtin import data
from gpu_runtime.local.apiserver.kinds import Column, Kind
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.table.builtin import CELLS, Cells
from gpu_runtime.local.apiserver.table.durations import since
from gpu_runtime.local.apiserver.table.jsonpath import find
from gpu_runtime.local.apiserver.table.pods import pod_conditions


@dataclass(frozen=True)
class Columns:
    definitions: list[Object]
    cells: Cells
    conditions: Callable[[Object], list[Object]]


def _none(_obj: Object) -> list[Object]:
    return []


def columns_of(kind: Kind) -> Columns:
    """The usual columns of a built-in kind, or the columns that a custom kind's definition lists."""
    if kind.custom:
        return _custom(kind)
    prefix = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
    definitions: list[Object] = data()["columns"][f"{prefix}/{kind.plural}"]
    return Columns(definitions, CELLS[kind.resource], pod_conditions if kind.resource == "pods" else _none)


def _custom(kind: Kind) -> Columns:
    known = {one["name"]: one["description"] for one in data()["columns"]["api/v1/configmaps"]}
    columns = kind.columns or (Column("Age", "date", ".metadata.creationTimestamp", description=known["Age"]),)
    definitions = [
        {"name": "Name", "type": "string", "format": "name", "description": known["Name"], "priority": 0},
        *(_definition(column) for column in columns),
    ]

    def cells(obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], *(_cell(column, obj, now) for column in columns)]

    return Columns(definitions, cells, _none)


def _definition(column: Column) -> Object:
    text = column.description or f"Custom resource definition column (in JSONPath format): {column.jsonPath}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": text,
        "priority": column.priority,
    }


def _cell(column: Column, obj: Object, now: datetime) -> Any:
    found = find(obj, column.jsonPath)
    if not found or found[0] is None:
        return None
    value = found[0]
    match column.type:
        case "integer":
            return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _date(value, now)
    return ",".join(_text(one) for one in found) if len(found) > 1 else _text(value)


def _date(value: Any, now: datetime) -> str:
    try:
        return since(value, now)
    except (TypeError, ValueError):
        return "<invalid>"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + " ".join(_text(one) for one in value) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_text(value[key])}" for key in sorted(value)) + "]"
    return str(value)
