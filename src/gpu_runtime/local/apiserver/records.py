"""Versions of objects, changes between them, and the collection of one resource that holds both."""

from __future__ import annotations

import asyncio
import bisect
from typing import Any

import msgspec

Object = dict[str, Any]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def same(left: Any, right: Any) -> bool:
    """Whether two documents are equal as JSON. To Python 1 and true are equal: such a write would be lost."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


class Record:
    """One version of one object. The body is its JSON without apiVersion and kind, which every served version adds."""

    __slots__ = ("_fields", "_labels", "body", "key", "version")

    def __init__(self, key: str, version: int, body: bytes) -> None:
        self.key = key
        self.version = version
        self.body = body
        self._labels: dict[str, str] | None = None
        self._fields: dict[str, str] | None = None

    def object(self) -> Object:
        """A fresh copy that the caller may change."""
        found: Object = decode(self.body)
        return found

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            self._labels = _labels(self.body).metadata.labels or {}
        return self._labels

    def fields(self, paths: tuple[str, ...]) -> dict[str, str]:
        """The values that field selectors may ask for, read once."""
        if self._fields is None:
            found = self.object()
            self._fields = {path: field_value(found, path) for path in paths}
        return self._fields


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labels = msgspec.json.Decoder(_Labelled).decode


def field_value(found: Any, path: str) -> str:
    """The value at a dotted path as a field selector compares it; empty when there is none."""
    for part in path.split("."):
        if not isinstance(found, dict):
            return ""
        found = found.get(part)
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)


class Event:
    """One committed change: the version before it and the version after it. A removal keeps the last body."""

    __slots__ = ("at", "deleted", "previous", "record", "resource")

    def __init__(self, resource: str, record: Record, deleted: bool, previous: Record | None, at: float) -> None:
        self.resource = resource
        self.record = record
        self.deleted = deleted
        self.previous = previous
        self.at = at

    @property
    def version(self) -> int:
        return self.record.version

    @property
    def past_bytes(self) -> int:
        """Size of the bodies that this change replaced or deleted. They are freed when the change is forgotten."""
        removed = len(self.record.body) if self.deleted else 0
        return removed + (len(self.previous.body) if self.previous is not None else 0)


class Collection:
    """The objects of one resource in key order, and its recent changes."""

    __slots__ = ("changed", "dropped", "history", "keys", "records")

    def __init__(self) -> None:
        self.dropped = 0
        """The last change that the history no longer holds."""
        self.records: dict[str, Record] = {}
        self.keys: list[str] = []
        self.history: list[Event] = []
        self.changed = asyncio.Event()

    def apply(self, event: Event) -> None:
        key = event.record.key
        if event.deleted:
            if self.records.pop(key, None) is not None:
                del self.keys[bisect.bisect_left(self.keys, key)]
        else:
            if key not in self.records:
                bisect.insort(self.keys, key)
            self.records[key] = event.record
        self.history.append(event)

    def wake(self) -> None:
        """Wakes every watch of this resource; the next wait starts from a fresh event."""
        self.changed.set()
        self.changed = asyncio.Event()

    def since(self, version: int) -> list[Event]:
        """Changes after `version`, in order."""
        return self.history[bisect.bisect_right(self.history, version, key=version_of) :]

    def within(self, prefix: str) -> list[Record]:
        """Records whose key starts with `prefix`, in key order."""
        if not prefix:
            return [self.records[key] for key in self.keys]
        first = bisect.bisect_left(self.keys, prefix)
        last = bisect.bisect_left(self.keys, prefix[:-1] + chr(ord(prefix[-1]) + 1))
        return [self.records[key] for key in self.keys[first:last]]


def version_of(event: Event) -> int:
    return event.record.version
