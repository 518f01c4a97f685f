"""An API in memory whose states can be compared: independent calls lead to the same state in either order."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Any, TypeVar

import msgspec

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.kube.resource import Resource
from unit.service.exploration.memory import Memory

T = TypeVar("T", bound=Object)
FIRST_VERSION = 1_000  # newer than any cache of the scene


class Comparable(Memory):
    """UIDs and versions count per object, so that they say nothing about the order of calls to different objects."""

    def __init__(self) -> None:
        super().__init__()
        self._prints: dict[tuple[str, Key], int] = {}
        self._made: Counter[tuple[str, Key]] = Counter()
        self._written: Counter[tuple[str, Key]] = Counter()

    def state(self) -> int:
        """The same for equal contents."""
        there = frozenset((identity, self._prints[identity]) for identity in self.objects)
        return hash((there, frozenset(self._made.items())))

    def seen_by(self, call: str) -> int:
        """All that the answer to a call can depend on; calls name a kind, and a name unless they list."""
        verb, kind, *name = call.split()
        return hash(
            (
                verb,
                frozenset(
                    (identity, self._prints[identity])
                    for identity in self.objects
                    if identity[0] == kind and (verb == "list" or identity[1].name in name)
                ),
            )
        )

    def copy(self) -> Comparable:
        other = copy(self)
        other.objects = dict(self.objects)
        other._prints, other._made, other._written = dict(self._prints), Counter(self._made), Counter(self._written)
        return other

    def _write(self, resource: Resource[T], obj: Any, meta: ObjectMeta) -> T:
        written: T = super()._write(resource, obj, meta)
        self._prints[resource.kind, meta.key] = hash(msgspec.json.encode(written))
        return written

    def _new_uid(self, kind: str, key: Key) -> str:
        self._made[kind, key] += 1
        return f"{kind.lower()}-{key.name}-{self._made[kind, key]}"

    def _new_version(self, kind: str, key: Key) -> str:
        super()._new_version(kind, key)
        self._written[kind, key] += 1
        return str(FIRST_VERSION + self._written[kind, key])
