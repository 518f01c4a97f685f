"""An open watch: forwards event by event, and can be cut, ended, frozen or changed on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from enum import Enum

import aiohttp
import msgspec
from multidict import CIMultiDict

from equipment.fault_proxy.call import Call
from equipment.fault_proxy.history import Exchange
from equipment.fault_proxy.matching import Event
from equipment.fault_proxy.passage import ConnectionLost
from equipment.waiting import Changes

Transform = Callable[[Event], Iterable[Event]]


class Close(Enum):
    """How a stream stops."""

    CUT = "reset"
    END = "clean end"


class WatchStream:
    """One watch between a client and the server. Its methods act at once on what the client sees from now on."""

    def __init__(self, call: Call, exchange: Exchange, upstream: aiohttp.ClientResponse) -> None:
        self.call = call
        self.exchange = exchange
        self.delivered = 0
        self.discarded = 0
        self._upstream = upstream
        self._by_line = "json" in upstream.headers.get("Content-Type", "")
        self._pending: deque[tuple[bytes, bool]] = deque()
        self._frozen = False
        self._discarding = False
        self._close: Close | None = None
        self._upstream_closed: Close | None = None
        self._transforms: list[Transform] = []
        self._marks: list[tuple[int, Callable[[], None]]] = []
        self._changes = Changes()

    @property
    def status(self) -> int:
        return self._upstream.status

    @property
    def headers(self) -> CIMultiDict[str]:
        return CIMultiDict(self._upstream.headers)

    @property
    def waiting(self) -> int:
        """How many events have come from the server and not been delivered."""
        return len(self._pending)

    def cut(self) -> None:
        """Resets the client's connection."""
        self._close = Close.CUT
        self._changes.notify()

    def end(self) -> None:
        """Ends the response as a server does when a watch times out."""
        self._close = Close.END
        self._changes.notify()

    def freeze(self, *, discard: bool = False) -> None:
        """Delivers nothing more, with the connection open; what arrives meanwhile is kept, or discarded."""
        self._frozen, self._discarding = True, discard

    def thaw(self) -> None:
        """Goes on, with what was kept first."""
        self._frozen = self._discarding = False
        self._changes.notify()

    def inject(self, event: Event) -> None:
        """Delivers an event that the server did not send, after those already on the way."""
        self._pending.append((msgspec.json.encode(event) + b"\n", True))
        self._changes.notify()

    def transform(self, transform: Transform) -> Callable[[], None]:
        """Delivers what `transform` makes of each event of the server; returns how to stop that."""
        self._transforms.append(transform)
        return lambda: self._transforms.remove(transform) if transform in self._transforms else None

    def after(self, events: int, act: Callable[[], None]) -> None:
        """Acts when that many more events of the server have been delivered; at once for 0."""
        if events:
            self._marks.append((self.delivered + events, act))
        else:
            act()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """What the client gets; raises ConnectionLost where its connection is to be reset."""
        reader = asyncio.create_task(self._read())
        try:
            while True:
                await self._changes.until(self._can_go_on)
                if close := self._close or (None if self._pending else self._upstream_closed):
                    if close is Close.CUT:
                        raise ConnectionLost("watch reset")
                    return
                line, injected = self._pending.popleft()
                for outgoing in [line] if injected or not self._transforms else self._transformed(line):
                    yield outgoing
                if not injected:
                    self._count()
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
            self.close()

    def close(self) -> None:
        """Lets go of the server's side."""
        self._upstream.close()

    def _can_go_on(self) -> bool:
        return bool(self._close or (not self._frozen and (self._pending or self._upstream_closed)))

    def _count(self) -> None:
        self.delivered += 1
        due = [act for at, act in self._marks if at <= self.delivered]
        self._marks = [(at, act) for at, act in self._marks if at > self.delivered]
        for act in due:
            act()

    def _transformed(self, line: bytes) -> list[bytes]:
        events = [msgspec.json.decode(line)]
        for transform in self._transforms:
            events = [made for event in events for made in transform(event)]
        return [msgspec.json.encode(event) + b"\n" for event in events]

    async def _read(self) -> None:
        rest = b""
        try:
            async for chunk in self._upstream.content.iter_any():
                if not self._by_line:
                    self._arrive(chunk)
                    continue
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        self._arrive(line + b"\n")
            self._upstream_closed = Close.END
        except (aiohttp.ClientError, ConnectionError):
            self._upstream_closed = Close.CUT
        self._changes.notify()

    def _arrive(self, line: bytes) -> None:
        if self._discarding:
            self.discarded += 1
            return
        self._pending.append((line, False))
        self._changes.notify()
