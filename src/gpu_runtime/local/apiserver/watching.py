"""Watches: send every change of a kind after a version, in order, once.

A watch has no queue: it remembers the last version that it has sent and reads on in the store's history. A client that
is so slow that the history no longer reaches back to it gets 410. No watch uses memory while it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from gpu_runtime.local.apiserver.errors import Status, gone
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.records import Event, Object, Record, encode
from gpu_runtime.local.apiserver.selectors import Matcher
from gpu_runtime.local.apiserver.store import Store

Render = Callable[[Record], bytes]

BOOKMARK_SECONDS = 60.0


def classify(event: Event, matches: Matcher | None) -> str:
    """ADDED, MODIFIED or DELETED as a watch with this selector sees the change; empty when it does not."""
    before = event.previous is not None and (matches is None or matches(event.previous))
    after = not event.deleted and (matches is None or matches(event.record))
    if after:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else ""


def too_old(asked: int, oldest: int) -> Status:
    return gone(f"too old resource version: {asked} ({oldest})")


class Watch:
    """One watch of one kind, as a stream of lines."""

    def __init__(
        self,
        store: Store,
        kind: Kind,
        namespace: str,
        matches: Matcher | None,
        render: Render,
        bookmark: Callable[[int, bool], Object],
    ) -> None:
        self._store = store
        self._kind = kind
        self._prefix = kind.prefix_of(namespace)
        self._matches = matches
        self._render = render
        self._bookmark = bookmark

    async def lines(
        self, version: int | None, *, bookmarks: bool, initial_end: bool, seconds: float
    ) -> AsyncIterator[bytes]:
        """Batches of events until the time is up or `version` is too old; without one, existing objects come first."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        if version is None:
            version = self._store.version
            lines = [self._line("ADDED", record) for record in self._initial()]
            if initial_end:
                lines.append(_event("BOOKMARK", encode(self._bookmark(version, True))))
            yield b"".join(lines)
        collection = self._store.collection(self._kind.resource)
        while True:
            changed = collection.changed
            reached = self._store.version
            if collection.dropped > version:
                yield _event("ERROR", encode(too_old(version, self._store.oldest).wire()))
                return
            lines = [line for event in collection.since(version) if (line := self._line_of(event))]
            version = max(version, reached)
            if lines:
                yield b"".join(lines)
                continue
            now = loop.time()
            if bookmarks and now >= next_bookmark:
                next_bookmark = now + BOOKMARK_SECONDS
                yield _event("BOOKMARK", encode(self._bookmark(version, False)))
            if now >= end or self._store.stopping:
                return
            wait = min(end, next_bookmark if bookmarks else end) - now
            try:
                async with asyncio.timeout(wait):
                    await changed.wait()
            except TimeoutError:
                continue

    def _initial(self) -> list[Record]:
        found = self._store.records(self._kind.resource, self._prefix)
        return found if self._matches is None else [record for record in found if self._matches(record)]

    def _line_of(self, event: Event) -> bytes:
        if not event.record.key.startswith(self._prefix):
            return b""
        kind = classify(event, self._matches)
        if not kind:
            return b""
        if kind == "DELETED" and not event.deleted:
            # The object no longer matches: the client gets its old state, with the version of the change.
            assert event.previous is not None
            old = event.previous.object()
            old["metadata"]["resourceVersion"] = str(event.version)
            return self._line(kind, Record(event.record.key, event.version, encode(old)))
        return self._line(kind, event.record)

    def _line(self, kind: str, record: Record) -> bytes:
        return _event(kind, self._render(record))


def _event(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"
