"""Objects, their versions and the recent past, in memory; every change is on disk before anybody sees it.

One sequence counts every write of every kind, as etcd's does. Readers see committed versions only; writers, who run one
after the other on the event loop, see what is about to be committed too: two never act on one old version.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from gpu_runtime.local.apiserver.journal import Append, Drop, Journal, Row
from gpu_runtime.local.apiserver.records import Collection, Event, Object, Record, encode, version_of
from gpu_runtime.local.apiserver.reports import failed

KEEP_SECONDS = 300
KEEP_EVENTS = 100_000
KEEP_BYTES = 128 * 1024**2


class Compacted(Exception):
    """The asked version is no longer kept; `oldest` is the first that is."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"version {asked} is older than {oldest}")
        self.asked = asked
        self.oldest = oldest


class WriteFailed(Exception):
    """The disk refused the write; nothing of it was kept."""


class Write:
    """One change on its way to the disk."""

    __slots__ = ("committed", "event", "version")

    def __init__(self, event: Event, committed: asyncio.Future[None]) -> None:
        self.event = event
        self.version = event.version
        self.committed = committed


class Store:
    """All objects of the cluster. Use from one event loop."""

    def __init__(
        self,
        journal: Journal,
        keep_seconds: float = KEEP_SECONDS,
        keep_events: int = KEEP_EVENTS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._journal = journal
        self._keep_seconds = keep_seconds
        self._keep_events = keep_events
        self._keep_bytes = keep_bytes
        self.past_bytes = 0
        """Size of the bodies that only history keeps: old versions and deleted objects."""
        self._loop = asyncio.get_running_loop()
        self._collections: dict[str, Collection] = {}
        self._pending: dict[tuple[str, str], Event] = {}
        self._recent: deque[Event] = deque()
        self._listeners: list[Callable[[Event], None]] = []
        self._last_write: asyncio.Future[None] | None = None
        self._epoch = 0
        self.stopping = False
        self.oldest = journal.oldest
        self.version = max(1, journal.oldest)
        self._load()
        self._assigned = self.version
        journal.start(self._written)
        self._bound_history()

    def _load(self) -> None:
        now = time.monotonic()
        for row in self._journal.rows():
            collection = self.collection(row.resource)
            record = Record(row.key, row.version, row.body)
            event = Event(row.resource, record, row.deleted, collection.records.get(row.key), now)
            collection.apply(event)
            self.version = max(self.version, row.version)
            if row.version <= self.oldest:
                collection.dropped = collection.history.pop().version
            else:
                self._remember(event)

    def _remember(self, event: Event) -> None:
        self._recent.append(event)
        self.past_bytes += event.past_bytes

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection()
        return found

    # Reading: committed versions only.

    def get(self, resource: str, key: str) -> Record | None:
        return self.collection(resource).records.get(key)

    def records(self, resource: str, prefix: str = "") -> list[Record]:
        return self.collection(resource).within(prefix)

    def list_at(self, resource: str, prefix: str, version: int) -> list[Record]:
        """The records as they stood right after `version`."""
        if version == self.version:
            return self.records(resource, prefix)
        self.must_keep(version)
        collection = self.collection(resource)
        past: dict[str, Record | None] = {}
        for event in reversed(collection.since(version)):
            past[event.record.key] = event.previous
        found = {record.key: record for record in collection.within(prefix)}
        for key, record in past.items():
            if not key.startswith(prefix):
                continue
            if record is None:
                found.pop(key, None)
            else:
                found[key] = record
        return [found[key] for key in sorted(found)]

    def must_keep(self, version: int) -> None:
        if version < self.oldest:
            raise Compacted(version, self.oldest)

    # Writing: call `current` and `write` without awaiting in between.

    def current(self, resource: str, key: str) -> Record | None:
        """The version that the next write of this key replaces, committed or not."""
        waiting = self._pending.get((resource, key))
        if waiting is not None:
            return None if waiting.deleted else waiting.record
        return self.collection(resource).records.get(key)

    def all_current(self, resource: str, prefix: str = "") -> Iterator[Record]:
        """The newest version of each key, committed or not."""
        waiting = {
            key: event for (kind, key), event in self._pending.items() if kind == resource and key.startswith(prefix)
        }
        for record in self.collection(resource).within(prefix):
            if record.key not in waiting:
                yield record
        for event in waiting.values():
            if not event.deleted:
                yield event.record

    def write(self, resource: str, key: str, found: Object, *, deleted: bool = False) -> Write:
        """Gives the object the next version and sends it to the disk."""
        previous = self.current(resource, key)
        self._assigned += 1
        version = self._assigned
        found["metadata"]["resourceVersion"] = str(version)
        record = Record(key, version, encode(found))
        event = Event(resource, record, deleted, previous, time.monotonic())
        self._pending[(resource, key)] = event
        committed: asyncio.Future[None] = self._loop.create_future()
        committed.add_done_callback(_retrieve_failure)
        self._last_write = committed
        self._journal.append(Append(Row(version, resource, key, deleted, record.body), self._epoch, (event, committed)))
        return Write(event, committed)

    async def committed(self) -> None:
        """Waits for the last write that was begun; raises WriteFailed where the disk refused it."""
        if self._last_write is not None:
            await self._last_write

    async def settled(self) -> None:
        """Waits for every write that was begun: an answer that depends on one must not overtake it."""
        if self._last_write is not None and not self._last_write.done():
            await asyncio.wait([self._last_write])

    def _written(self, appends: list[Append], failure: Exception | None) -> None:
        """Called in the writer's thread."""
        self._loop.call_soon_threadsafe(self._publish, appends, failure)

    def _publish(self, appends: list[Append], failure: Exception | None) -> None:
        for append in appends:
            event, committed = append.token
            mark = (event.resource, event.record.key)
            if self._pending.get(mark) is event:
                del self._pending[mark]
            if failure is not None:
                self._epoch = max(self._epoch, append.epoch + 1)
                if not committed.done():
                    committed.set_exception(WriteFailed(str(failure)))
                continue
            collection = self.collection(event.resource)
            collection.apply(event)
            self.version = event.version
            self._remember(event)
            collection.wake()
            if not committed.done():  # the request was cancelled; the write is on disk all the same
                committed.set_result(None)
        if failure is None:
            self._notify(append.token[0] for append in appends)
        self._bound_history()

    def _bound_history(self) -> None:
        """Drops history above the limits, and a tenth more, so that a busy cluster does not compact at each write."""
        if len(self._recent) > self._keep_events:
            self.compact(self._recent[len(self._recent) // 10].version)
        if self.past_bytes > self._keep_bytes:
            surplus, version = self.past_bytes - self._keep_bytes * 9 // 10, self.oldest
            for event in self._recent:
                if surplus <= 0:
                    break
                surplus, version = surplus - event.past_bytes, event.version
            self.compact(version)

    def _notify(self, events: Iterable[Event]) -> None:
        for event in events:
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception:
                    # The write is committed: a listener that fails must not fail the requests of others.
                    failed("follower failed", resource=event.resource, key=event.record.key)

    def compact_by_age(self) -> None:
        """Drops history that is older than the limit."""
        limit = time.monotonic() - self._keep_seconds
        version = self.oldest
        for event in self._recent:
            if event.at > limit:
                break
            version = event.version
        self.compact(version)

    def compact(self, version: int) -> None:
        """Drops history up to `version`. Watches and lists from an earlier version get 410."""
        if version <= self.oldest:
            return
        dropped: list[int] = []
        touched: set[str] = set()
        while self._recent and self._recent[0].version <= version:
            event = self._recent.popleft()
            self.past_bytes -= event.past_bytes
            touched.add(event.resource)
            if event.previous is not None:
                dropped.append(event.previous.version)
            if event.deleted:
                dropped.append(event.version)
        for resource in touched:
            collection = self.collection(resource)
            end = bisect.bisect_right(collection.history, version, key=version_of)
            collection.dropped = collection.history[end - 1].version
            del collection.history[:end]
        self.oldest = version
        self._journal.drop(Drop(tuple(dropped), version))

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Calls `listener` right after each commit, on the event loop, in order."""
        self._listeners.append(listener)

    def stop_watches(self) -> None:
        """Ends every watch, so that the server can drain."""
        self.stopping = True
        for collection in self._collections.values():
            collection.wake()

    def problems(self) -> dict[str, str]:
        """What blocks every write, if anything does."""
        return {} if self._journal.writing else {"journal": "its writer has ended: nothing is written any more"}

    def close(self) -> None:
        self._journal.close()


def _retrieve_failure(committed: asyncio.Future[None]) -> None:
    """Reads the failure: asyncio must not report it as never retrieved when no handler waits for it any more."""
    if not committed.cancelled():
        committed.exception()
