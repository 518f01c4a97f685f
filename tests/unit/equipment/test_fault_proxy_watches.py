"""Each fault of a watch, as its client sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy, bookmark, events, expired, watches
from equipment.waiting import eventually
from unit.equipment.tiny_server import TinyServer

WATCH = "/api/v1/namespaces/ns/configmaps?watch=1"

# What must not happen is waited for this long: long enough that it would have.
A_MOMENT = 0.1


class Watch:
    """A client's side of a watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self._answer = answer
        self._read = b""

    async def next(self) -> Any:
        """The next event, of any size; None at a clean end."""
        async with asyncio.timeout(30):
            while b"\n" not in self._read:
                if not (chunk := await self._answer.content.readany()):
                    return None
                self._read += chunk
        line, self._read = self._read.split(b"\n", 1)
        return json.loads(line)

    async def names(self, count: int) -> list[str]:
        return [
            f"{event['type']} {event['object']['metadata']['name']}"
            for event in [await self.next() for _ in range(count)]
        ]

    async def is_silent(self) -> bool:
        try:
            async with asyncio.timeout(A_MOMENT):
                await self.next()
        except TimeoutError:
            return True
        return False

    async def is_reset(self) -> bool:
        try:
            while await self.next() is not None:
                pass
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ConnectionResetError):
            return True
        return False


@asynccontextmanager
async def watching(client: aiohttp.ClientSession) -> AsyncIterator[Watch]:
    async with client.get(WATCH) as answer:
        yield Watch(answer)


def publish(tiny: TinyServer, *names: str, change: str = "MODIFIED") -> None:
    for name in names:
        tiny.publish(change, {"metadata": {"name": name}})


async def test_a_watch_opens_before_its_first_event_and_delivers_each_as_it_comes(
    tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        assert watch.status == 200
        for name in "ab":
            publish(tiny, name)
            assert await watch.names(1) == [f"MODIFIED {name}"]
        tiny.end_watches()
        assert await watch.next() is None


async def test_an_event_larger_than_any_buffer_passes(tiny: TinyServer, client: aiohttp.ClientSession) -> None:
    async with watching(client) as watch:
        tiny.publish("ADDED", {"data": "x" * 3_000_000})
        assert len((await watch.next())["object"]["data"]) == 3_000_000


async def test_a_watch_whose_client_leaves_is_let_go_on_the_server_side(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    async with watching(client):
        await proxy.stream(watches("configmaps"))
    await eventually(lambda: proxy.streams() == [], what="the proxy lets go of the stream")


async def test_an_open_watch_is_cut(proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession) -> None:
    async with watching(client) as watch:
        publish(tiny, "a")
        assert await watch.names(1) == ["MODIFIED a"]
        proxy.on(watches("configmaps"), times=1).cut()
        assert await watch.is_reset()
    async with watching(client) as again:
        publish(tiny, "b")
        assert await again.names(1) == ["MODIFIED b"]


async def test_the_nth_watch_is_cut_after_so_many_events(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as open_already:
        fault = proxy.on(watches(), nth=1).cut(after_events=2)
        async with watching(client) as watch:
            publish(tiny, "a", "b", "c")
            assert await watch.names(2) == ["MODIFIED a", "MODIFIED b"]
            assert await watch.is_reset()
        assert await open_already.names(3) == ["MODIFIED a", "MODIFIED b", "MODIFIED c"]
    assert len(fault.hits) == 1


async def test_a_watch_ends_cleanly(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    async with watching(client) as watch:
        (await proxy.stream()).end()
        assert await watch.next() is None


async def test_a_reset_on_the_server_side_is_a_reset_for_the_client(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        transport = tiny.requests[0].transport
        assert transport is not None
        transport.abort()
        assert await watch.is_reset()


async def test_a_watch_that_is_opened_after_the_thaw_is_not_frozen(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    held, frozen = proxy.on(watches()).hold(), proxy.on(watches()).freeze()
    opening = asyncio.create_task(client.get(WATCH))
    await held.arrived()
    frozen.thaw()
    held.release()
    async with await opening as answer:
        publish(tiny, "a")
        assert await Watch(answer).names(1) == ["MODIFIED a"]


async def test_a_frozen_watch_is_silent_and_delivers_what_was_kept_when_it_thaws(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        frozen = proxy.on(watches()).freeze()
        publish(tiny, "a", "b")
        assert await watch.is_silent()
        async with watching(client) as later:
            publish(tiny, "c")
            assert await later.is_silent()
            frozen.thaw()
            assert await later.names(1) == ["MODIFIED c"]
        assert await watch.names(3) == ["MODIFIED a", "MODIFIED b", "MODIFIED c"]


async def test_a_frozen_watch_can_lose_what_arrives_meanwhile(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        frozen = proxy.on(watches()).freeze(discard=True)
        [stream] = proxy.streams()
        publish(tiny, "a")
        await eventually(lambda: stream.discarded == 1, what="the event is discarded")
        frozen.thaw()
        publish(tiny, "b")
        assert await watch.names(1) == ["MODIFIED b"]


async def test_a_frozen_watch_hides_even_its_end(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        frozen = proxy.on(watches()).freeze()
        tiny.end_watches()
        assert await watch.is_silent()
        frozen.thaw()
        assert await watch.next() is None


async def test_events_are_injected_into_a_healthy_stream(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        proxy.on(watches(), times=1).inject(expired(), after_events=1)
        publish(tiny, "a", "b")
        assert await watch.names(1) == ["MODIFIED a"]
        seen = [await watch.next(), await watch.next()]
        errors = [event["object"] for event in seen if event["type"] == "ERROR"]
        assert [(error["code"], error["reason"]) for error in errors] == [(410, "Expired")]
        (await proxy.stream()).inject(bookmark("v1", "ConfigMap", "7"))
        event = await watch.next()
        assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", "7")


async def test_a_watch_can_be_refused_with_a_status(proxy: FaultProxy, client: aiohttp.ClientSession) -> None:
    proxy.on(watches(), times=1).answer(410)
    async with client.get(WATCH) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_chosen_events_are_dropped_until_the_fault_is_removed(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    async with watching(client) as watch:
        fault = proxy.on(watches()).drop_events(events("DELETED", name="a"))
        publish(tiny, "a", "b", change="DELETED")
        publish(tiny, "a")
        assert await watch.names(2) == ["DELETED b", "MODIFIED a"]
        fault.remove()
        publish(tiny, "a", change="DELETED")
        assert await watch.names(1) == ["DELETED a"]


async def test_chosen_events_are_repeated(proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession) -> None:
    proxy.on(watches()).repeat_events(events(name="a"), copies=3)
    async with watching(client) as watch:
        publish(tiny, "a", "b")
        assert await watch.names(4) == ["MODIFIED a"] * 3 + ["MODIFIED b"]


async def test_events_can_be_reordered(proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession) -> None:
    kept: list[dict[str, Any]] = []

    def swap_pairs(event: dict[str, Any]) -> list[dict[str, Any]]:
        kept.append(event)
        return [kept.pop(), kept.pop()] if len(kept) == 2 else []

    proxy.on(watches()).transform_events(swap_pairs, "pairs swapped")
    async with watching(client) as watch:
        publish(tiny, "a", "b")
        assert await watch.names(2) == ["MODIFIED b", "MODIFIED a"]


async def test_a_dropped_watch_response_leaves_no_stream_behind(
    proxy: FaultProxy, client: aiohttp.ClientSession
) -> None:
    proxy.on(watches(), times=1).drop_response()
    with pytest.raises((aiohttp.ClientConnectionError, ConnectionResetError)):
        await client.get(WATCH)
    assert proxy.streams() == []


async def test_a_watch_that_opens_after_its_client_has_left_is_closed(
    proxy: FaultProxy, tiny: TinyServer, client: aiohttp.ClientSession
) -> None:
    held = proxy.on(watches(), times=1).hold()
    leaving = asyncio.ensure_future(client.get(WATCH))
    await held.arrived()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await proxy.seen(watches())
    held.release()
    await held.finished()
    await eventually(lambda: tiny.requests and tiny.requests[0].transport is None, what="the server's side is closed")
