"""A cache that never forgets what we wrote ourselves: without it, work on a lagging cache is done twice."""

from __future__ import annotations

from itertools import takewhile
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.store import Store, version_number

T = TypeVar("T", bound=Object)


class Mirror(Generic[T]):
    """The objects of a store, or newer versions of them that our own writes were answered with.

    An answer counts until the store has come as far as its version: then the store knows it, or what came after.
    """

    def __init__(self, store: Store[T]) -> None:
        self.store = store
        self._written: dict[Key, T] = {}

    def get(self, key: Key) -> T | None:
        """The newest version that we know of."""
        written = self._written.get(key)
        if written is None:
            return self.store.get(key)
        if self._told(written):
            del self._written[key]
            return self.store.get(key)
        return written

    def wrote(self, obj: T) -> T:
        """Remembers the server's answer to a write of ours."""
        self._forget_told()
        if not self._told(obj):
            self._written.pop(obj.metadata.key, None)  # so that the newest is last
            self._written[obj.metadata.key] = obj
        return obj

    def _told(self, written: T) -> bool:
        return self.store.version >= version_number(written.metadata.resourceVersion)

    def _forget_told(self) -> None:
        # Oldest first, and one write adds one: what nobody asks for again would otherwise stay for ever.
        for key in [*takewhile(lambda key: self._told(self._written[key]), self._written)]:
            del self._written[key]

    def find(self, index: str, value: str) -> list[T]:
        """The cached objects that the index files under `value`."""
        return self.store.find(index, value)
