"""Columns and cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.store import Object

Cells = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True)
class Columns:
    definitions: list[Object]
    cells: Cells


def definition(name: str, kind: str = "string", priority: int = 0, form: str = "") -> Object:
    return {
        "name": name,
        "type": kind,
        "format": form or ("name" if name == "Name" else ""),
        "description": "",
        "priority": priority,
    }


def _plain(document: Object, _now: datetime) -> list[Any]:
    return [document["metadata"]["name"], document["metadata"].get("creationTimestamp", "")]


def columns_of(kind: Kind) -> Columns:  # noqa: ARG001
    return Columns([definition("Name"), definition("Created At", "date")], _plain)
