"""Clients that write without pause and remember what they were told.

A write is answered, or its connection breaks and nobody knows: then the object itself is asked, and must be in
exactly one of two states, before the write or after it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from realkube.api import Access

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
BROKEN = (aiohttp.ClientError, ConnectionError, TimeoutError)

Event = tuple[str, int]
"""The type of a watch event and the serial number of the write that it shows."""


@asynccontextmanager
async def session(server: Access) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    headers = {"Authorization": f"Bearer {server.token}"}
    connector = aiohttp.TCPConnector(ssl=context, force_close=False)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as http:
        yield http


@dataclass
class Thing:
    """One object as its only writer knows it."""

    name: str
    serial: int = 0
    alive: bool = False
    history: list[Event] = field(default_factory=list)
    """What every watcher must see of it, in this order."""

    def applied(self, operation: str, serial: int) -> None:
        if operation == "DELETED":
            self.alive = False
            self.history.append((operation, self.serial))
        else:
            self.alive, self.serial = True, serial
            self.history.append((operation, serial))


def document(name: str, serial: int) -> dict[str, Any]:
    """The serial number in several places: a torn write would show different ones."""
    return {
        "metadata": {"name": name, "annotations": {"serial": str(serial)}},
        "data": {"first": str(serial), "last": str(serial)},
    }


def serial_of(body: dict[str, Any]) -> int:
    """The serial number of an object; fails when the object is half one write and half another."""
    seen = {body["metadata"]["annotations"]["serial"], body["data"]["first"], body["data"]["last"]}
    assert len(seen) == 1, f"half a write is there: {body}"
    return int(seen.pop())


@dataclass
class Tally:
    """How much happened, for the line at the end; `answered` also wakes whoever waits for the next kill."""

    answered: int = 0
    unanswered: int = 0
    unanswered_but_done: int = 0
    on_answer: Callable[[], None] = lambda: None

    def answer(self) -> None:
        self.answered += 1
        self.on_answer()


@dataclass
class Client:
    """One writer with objects of its own."""

    name: str
    http: aiohttp.ClientSession
    random: Random
    up: asyncio.Event
    stopping: asyncio.Event
    tally: Tally
    things: list[Thing] = field(default_factory=list)
    serial: int = 0

    async def run(self) -> None:
        """Writes until told to stop; after every break it first checks all that it was ever told."""
        while not self.stopping.is_set():
            await self.up.wait()
            thing = self.random.choice(self.things)
            operation = self.random.choice(["MODIFIED", "MODIFIED", "DELETED"]) if thing.alive else "ADDED"
            self.serial += 1
            try:
                await self._write(thing, operation, self.serial)
            except BROKEN:
                self.tally.unanswered += 1
                await self._until_answered(self._resolve, thing, operation, self.serial)
                await self._until_answered(self.audit)
            else:
                thing.applied(operation, self.serial)
                self.tally.answer()

    async def _write(self, thing: Thing, operation: str, serial: int) -> None:
        path, body = f"{CONFIGMAPS}/{thing.name}", document(thing.name, serial)
        if operation == "ADDED":
            request = self.http.post(CONFIGMAPS, json=body)
        elif operation == "MODIFIED":
            request = self.http.patch(path, json=body, headers=MERGE_PATCH)
        else:
            request = self.http.delete(path)
        async with request as response:
            text = await response.text()
            assert response.status in (200, 201), f"{operation} {thing}: {response.status} {text}"

    async def _until_answered(self, act: Callable[..., Awaitable[None]], *args: object) -> None:
        answered = False
        while not answered:
            await self.up.wait()
            try:
                await act(*args)
                answered = True
            except BROKEN:
                await asyncio.sleep(0)

    async def _resolve(self, thing: Thing, operation: str, serial: int) -> None:
        """Learns what became of a write that nobody answered: all of it, or nothing."""
        found = await self._get(thing)
        done = found is None if operation == "DELETED" else found == serial
        if done:
            self.tally.unanswered_but_done += 1
            thing.applied(operation, serial)
        else:
            self._check(thing, found)

    async def audit(self) -> None:
        """Everything that was answered is there."""
        for thing in self.things:
            self._check(thing, await self._get(thing))

    def _check(self, thing: Thing, found: int | None) -> None:
        wanted = thing.serial if thing.alive else None
        assert found == wanted, f"{thing.name}: answered {wanted}, found {found}; {thing.history[-3:]}"

    async def _get(self, thing: Thing) -> int | None:
        async with self.http.get(f"{CONFIGMAPS}/{thing.name}") as response:
            body = await response.json()
            return None if response.status == 404 else serial_of(body)
