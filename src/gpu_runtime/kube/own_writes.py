"""A cache that shows the process its own writes at once. Without it, a lagging watch makes a reconcile write twice."""

from __future__ import annotations

from itertools import takewhile
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.store import Store, version_number

T = TypeVar("T", bound=Object)


class OwnWrites(Generic[T]):
    """The objects of a store, or the newer versions with which the server answered our own writes.

    An answer is used until the store has reached its version. From then on the store has it, or something newer.
    """

    def __init__(self, store: Store[T]) -> None:
        self.store = store
        self._written: dict[Key, T] = {}
        store.subscribe_to_lists(self._listed)

    def get(self, key: Key) -> T | None:
        """The newest version that this process knows."""
        written = self._written.get(key)
        if written is None:
            return self.store.get(key)
        if self._reached(written):
            del self._written[key]
            return self.store.get(key)
        return written

    def wrote(self, obj: T) -> T:
        """Remembers the server's answer to a write of ours, and returns it."""
        self._forget_reached()
        if not self._reached(obj):
            self._written.pop(obj.metadata.key, None)  # so that the newest is last
            self._written[obj.metadata.key] = obj
        return obj

    def find(self, index: str, value: str) -> list[T]:
        """The cached objects that the index files under `value`. Own writes are not in the index."""
        return self.store.find(index, value)

    def _listed(self, before: int, after: int) -> None:
        # After a restore from backup the server's versions begin lower. Older answers would hide the restored objects.
        if after < before:
            self._written.clear()

    def _reached(self, written: T) -> bool:
        return self.store.version >= version_number(written.metadata.resourceVersion)

    def _forget_reached(self) -> None:
        # Nobody may ever ask for a key again, so each write also drops the oldest answers that are no longer needed.
        for key in [*takewhile(lambda key: self._reached(self._written[key]), self._written)]:
            del self._written[key]
