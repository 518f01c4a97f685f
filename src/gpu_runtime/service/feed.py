"""Serves changes of one kind to many watchers from one cache: each change is decoded and encoded once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.store import Delta, Store
from gpu_runtime.rest.selector import EVERYTHING, Selector
from gpu_runtime.service.watchers import Watchers

MOST_KEPT = 4096  # changes that are kept: a watcher may lag behind by this number
Kind = Literal["added", "modified", "deleted", "bookmark", "reset"]
T = TypeVar("T", bound=Object)


class View(Protocol):
    """An object as clients see it."""

    @property
    def name(self) -> str: ...

    @property
    def phase(self) -> str: ...


class Expired(Exception):
    """The changes after this version are no longer kept: the watcher needs the whole list."""


@dataclass(frozen=True)
class Change:
    """One event for a watcher: a change of an object, a bookmark, or a `reset`.

    A watch can resume after `version`. If `version` is empty, it cannot resume after this event. After a `reset` the
    client forgets all objects, and the whole list follows.
    """

    kind: Kind
    version: str = ""
    view: View | None = None

    @cached_property
    def data(self) -> bytes:
        """The view as JSON, encoded once for all watchers."""
        return msgspec.json.encode(self.view) if self.view is not None else b"{}"


@dataclass(frozen=True)
class Wanted:
    """The objects that a watch selects."""

    namespace: str
    name: str = ""
    labels: Selector = EVERYTHING
    phase: str = ""

    def covers(self, obj: Object) -> bool:
        return obj.metadata.namespace == self.namespace and self.name in ("", obj.metadata.name)

    def matches(self, obj: Object, view: View) -> bool:
        return (
            self.covers(obj)
            and self.labels.matches(obj.metadata.labels)
            and (not self.phase or view.phase == self.phase)
        )


class _Step(Generic[T]):
    """One change of one object. Only the last step of an update has a `version`: a watch can resume only there."""

    def __init__(self, old: T | None, new: T | None, view: Callable[[T], View]) -> None:
        self.version = ""
        self._old, self._new = old, new
        self._view = view
        self._changes: dict[Kind, Change] = {}

    def seen_by(self, wanted: Wanted) -> Change | None:
        """The change as a watcher sees it. As in Kubernetes, an object that no longer matches is sent as deleted."""
        if not any(obj is not None and wanted.covers(obj) for obj in (self._old, self._new)):
            return None
        was = self._old is not None and self._before is not None and wanted.matches(self._old, self._before)
        matches = self._new is not None and self._after is not None and wanted.matches(self._new, self._after)
        if not was and not matches:
            return None
        return self._change("deleted" if not matches else "modified" if was else "added")

    def _change(self, kind: Kind) -> Change:
        if kind not in self._changes:
            self._changes[kind] = Change(kind, self.version, self._after or self._before)
        return self._changes[kind]

    @cached_property
    def _before(self) -> View | None:
        return self._view(self._old) if self._old is not None else None

    @cached_property
    def _after(self) -> View | None:
        return self._view(self._new) if self._new is not None else None


@dataclass(frozen=True)
class _CacheUpdate(Generic[T]):
    """Steps that reached the cache together: one watch event, or all differences that a new list showed.

    An object that was created and deleted between two lists is in no step. A watcher whose own list was read in between
    may know that object, so this update is incomplete for that watcher.
    """

    version: int
    steps: tuple[_Step[T], ...]
    listed_after: int | None = None  # for a list: the version of the cache before it

    @property
    def size(self) -> int:
        return max(1, len(self.steps))

    def misses(self, version: int) -> bool:
        """Whether changes after `version` may be missing from the steps."""
        return self.listed_after is not None and self.listed_after < version < self.version


class Feed(Generic[T]):
    """The last changes of a cache, in order. A watcher keeps only its position, so a slow watcher costs no memory.

    Objects in the namespace `without` are left out.
    """

    def __init__(self, store: Store[T], view: Callable[[T], View], *, without: str = "", most: int = MOST_KEPT) -> None:
        self._store = store
        self._view = view
        self._without = without
        self._most = most
        self._updates: deque[_CacheUpdate[T]] = deque()
        self._kept = 0
        self._first = 0  # number of the first update that is kept
        self._floor = 0  # the changes after this version are kept
        self._newest = 0
        self._open: list[_Step[T]] = []
        self._open_at = 0
        self._listed_after: int | None = None
        self._watchers = Watchers()
        store.subscribe(self._take)
        store.subscribe_to_lists(self._list_taken)

    @property
    def version(self) -> int:
        """The resourceVersion that the cache has reached; 0 before its first list."""
        return self._store.version

    def keeps(self, version: int) -> bool:
        """Whether all changes after this version are kept."""
        self._seal()
        return version >= self._floor

    async def after(
        self, version: int, wanted: Wanted, *, seconds: float, pause: float
    ) -> AsyncGenerator[list[Change], None]:
        """Changes after `version`, for `seconds`. A bookmark after every `pause` seconds without a change.

        Raises Expired when changes after the watcher's position are no longer kept.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        place = self._place(version)
        paused = False
        while True:
            place, changes = self._since(place, version, wanted)
            if paused and not changes:
                changes = [Change("bookmark", str(max(version, self.version)))]
            paused = False
            if changes:
                yield changes
                continue  # a change during the yield did not wake this watcher: look again before waiting
            left = end - loop.time()
            if left <= 0:
                return
            paused = not await self._watchers.wait(min(pause, left))

    def _place(self, version: int) -> int:
        """The number of the first update after the version."""
        if not self.keeps(version):
            raise Expired
        place = self._first
        for update in self._updates:
            if update.version > version:
                break
            place += 1
        return place

    def _since(self, place: int, version: int, wanted: Wanted) -> tuple[int, list[Change]]:
        self._seal()
        if place < self._first:
            raise Expired
        end = self._first + len(self._updates)
        updates = [self._updates[number] for number in range(place - self._first, end - self._first)]
        if any(update.misses(version) for update in updates):
            raise Expired
        changes = [
            change
            for update in updates
            if update.version > version
            for step in update.steps
            if (change := step.seen_by(wanted)) is not None
        ]
        return end, changes

    def _take(self, delta: Delta[T]) -> None:
        """Called by the store during its own change, before it sets the version that belongs to this change."""
        if not self._floor:
            self._floor = self._store.version  # still 0 during the first list, whose objects are not changes
        if self._open and self._store.version != self._open_at:
            self._seal()
        if delta.object.metadata.namespace == self._without:
            return
        if not self._open:
            self._open_at = self._store.version
            self._watchers.wake()
        self._open += _steps(delta, self._view)

    def _list_taken(self, before: int, _: int) -> None:
        if before:  # the first list is not a change
            self._listed_after = before
            self._watchers.wake()
            self._seal()

    def _seal(self) -> None:
        """Closes the open update. The store has set its version by now."""
        version, steps, listed_after = self._store.version, self._open, self._listed_after
        self._open, self._listed_after = [], None
        if not self._floor or version < self._newest:
            self._begin_anew(version)
        elif steps or listed_after is not None:
            if steps:
                steps[-1].version = str(version)
            self._updates.append(update := _CacheUpdate(version, tuple(steps), listed_after))
            self._kept += update.size
        self._newest = version
        while self._kept > self._most:
            dropped = self._updates.popleft()
            self._kept -= dropped.size
            self._floor = dropped.version
            self._first += 1

    def _begin_anew(self, version: int) -> None:
        """Drops all updates: after the first list, and after a restore from backup, when old versions are invalid."""
        self._first += len(self._updates) + 1  # beyond the position of each watcher: all get Expired
        self._updates.clear()
        self._kept = 0
        self._floor = version


def _steps(delta: Delta[T], view: Callable[[T], View]) -> Iterator[_Step[T]]:
    old, new = delta.old, delta.new
    if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
        yield _Step(old, None, view)  # deleted and created again between two lists
        yield _Step(None, new, view)
    else:
        yield _Step(old, new, view)
