"""The cache of a watch: objects by key, with indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]


@dataclass(frozen=True)
class Delta(Generic[T]):
    """One object before and after a change; None where it did not exist."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        obj = self.new if self.new is not None else self.old
        assert obj is not None
        return obj


Handler = Callable[[Delta[T]], None]
ListHandler = Callable[[int, int], None]


class Store(Generic[T]):
    """The cached objects of one query. Only its reflector writes; readers never change the objects."""

    def __init__(self) -> None:
        self.version = 0
        """The resourceVersion that the cache has reached."""
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, tuple[IndexFunction[T], dict[str, dict[Key, T]]]] = {}
        self._handlers: list[Handler[T]] = []
        self._list_handlers: list[ListHandler] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def index(self, name: str, function: IndexFunction[T]) -> None:
        """Objects can be found by the values that `function` gives; add it before the first object arrives."""
        assert not self._objects, "an index added late would miss what is already cached"
        self._indexes[name] = (function, {})

    def find(self, index: str, value: str) -> list[T]:
        """The objects that the index files under `value`."""
        return list(self._indexes[index][1].get(value, {}).values())

    def subscribe(self, handler: Handler[T]) -> None:
        """Calls `handler` for each change, after the change is visible here."""
        self._handlers.append(handler)

    def subscribe_to_lists(self, handler: ListHandler) -> None:
        """Calls `handler` with the old and new version for each complete list, after the list is visible here."""
        self._list_handlers.append(handler)

    def upsert(self, obj: T) -> None:
        """Takes in an object as added or changed; an older or known version of it changes nothing."""
        old = self._objects.get(obj.metadata.key)
        if old is not None and not _supersedes(obj, old):
            return
        self._change(obj.metadata.key, Delta(old, obj))

    def remove(self, key: Key) -> None:
        old = self._objects.get(key)
        if old is not None:
            self._change(key, Delta(old, None))

    def replace(self, objects: Iterable[T], resource_version: str) -> None:
        """Takes in a complete list: what is missing from it was deleted while nobody watched."""
        listed = {obj.metadata.key: obj for obj in objects}
        for key in [key for key in self._objects if key not in listed]:
            self.remove(key)
        for key, obj in listed.items():
            old = self._objects.get(key)
            if old is None or old.metadata.resourceVersion != obj.metadata.resourceVersion:
                self._change(key, Delta(old, obj))
        # Set, not raised: after a restore from backup the server's versions begin lower than ours ended.
        before, self.version = self.version, version_number(resource_version)
        for handler in self._list_handlers:
            handler(before, self.version)

    def saw(self, resource_version: str) -> None:
        """The cache has reached this version, whether or not a cached object changed."""
        self.version = max(self.version, version_number(resource_version))

    def _change(self, key: Key, delta: Delta[T]) -> None:
        for function, entries in self._indexes.values():
            if delta.old is not None:
                _unfile(entries, function(delta.old), key)
            if delta.new is not None:
                for value in function(delta.new):
                    entries.setdefault(value, {})[key] = delta.new
        if delta.new is None:
            del self._objects[key]
        else:
            self._objects[key] = delta.new
        for handler in self._handlers:
            handler(delta)


def version_number(resource_version: str) -> int:
    """A resourceVersion as the number that orders it; Kubernetes promises that order since 1.35."""
    return int(resource_version) if resource_version.isdigit() else 0


def by_owner(obj: Object) -> Iterable[str]:
    """Index function: children under the UID of each of their owners."""
    return (owner.uid for owner in obj.metadata.ownerReferences)


def _supersedes(new: Object, old: Object) -> bool:
    if new.metadata.uid != old.metadata.uid:
        return True  # deleted and created again while no watch ran
    return version_number(new.metadata.resourceVersion) > version_number(old.metadata.resourceVersion)


def _unfile(entries: dict[str, dict[Key, T]], values: Iterable[str], key: Key) -> None:
    for value in values:
        filed = entries.get(value)
        if filed is None:
            continue
        filed.pop(key, None)
        if not filed:
            del entries[value]
