"""Table output: what `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.records import Object, Record, encode
from gpu_runtime.local.apiserver.table.cells import Columns, columns_of


def partial(document: Object) -> Object:
    """An object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }


def of_objects(kind: Kind, documents: list[Object], query: Mapping[str, str], now: datetime | None = None) -> Object:
    """A Table with one row per object."""
    columns = columns_of(kind)
    moment = now or datetime.now(UTC)
    include = query.get("includeObject", "Metadata") or "Metadata"
    rows = [_row(columns, document, include, moment) for document in documents]
    metadata: Object = {}
    if len(documents) == 1:
        metadata["resourceVersion"] = documents[0]["metadata"].get("resourceVersion", "")
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns.definitions,
        "rows": rows,
    }


def _row(columns: Columns, document: Object, include: str, now: datetime) -> Object:
    row: Object = {"cells": columns.cells(document, now)}
    if conditions := columns.conditions(document):
        row["conditions"] = conditions
    row["object"] = {"Object": document, "None": None}.get(include, partial(document))
    return row


class StreamedRows:
    """Renders watch events as Tables of one row; only the first carries the column definitions."""

    def __init__(self, kind: Kind, query: Mapping[str, str]) -> None:
        self._kind = kind
        self._query = query
        self._first = True

    def __call__(self, record: Record) -> bytes:
        found: Any = of_objects(self._kind, [self._kind.document(record)], self._query)
        if not self._first:
            found["columnDefinitions"] = None
        self._first = False
        return encode(found)
