"""Streams: bounded in number and in time, and never in the way of requests."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.http import streams as streams_module
from gpu_runtime.http.route import Call, Reply
from gpu_runtime.http.streams import Streams, send_changes, send_text
from gpu_runtime.rest.errors import TooManyRequests
from gpu_runtime.service.feed import Change
from unit.http.served import route, serving


@dataclass
class Source:
    """Pieces of a stream, and when it was ended."""

    first: bytes = b""
    pieces: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, call: Call[Any, Any, Any]) -> web.StreamResponse:
        return await send_text(call.request, self._all())

    async def _all(self) -> AsyncGenerator[bytes, None]:
        self.began.set()
        try:
            if self.first:
                yield self.first
            while True:
                yield await self.pieces.get()
        finally:
            self.ended.set()


async def wait_for_ever(_: Call[Any, Any, Any]) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def getting(url: str) -> AsyncIterator[aiohttp.ClientResponse]:
    async with asyncio.timeout(60), aiohttp.ClientSession() as session, session.get(url) as response:
        yield response


async def test_streams_end_in_order_when_the_process_does() -> None:
    streams = Streams(most=1)
    began, ended = asyncio.Event(), asyncio.Event()

    async def stream() -> str:
        async with streams.slot():
            began.set()
            await asyncio.Event().wait()
        ended.set()
        return "last words"

    task = asyncio.create_task(stream())
    await began.wait()
    with pytest.raises(TooManyRequests):
        async with streams.slot():
            pass
    await streams.close(None)  # type: ignore[arg-type]
    assert await task == "last words"
    assert ended.is_set()


async def test_a_client_that_went_away_ends_a_stream_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "HEARTBEAT_SECONDS", 0.01)
    source = Source()
    source.pieces.put_nowait(b"one line")
    async with serving(route("/log", source.stream)) as url, getting(f"{url}/log") as response:
        assert await response.content.readany() == b"one line"
        response.close()
        await eventually(source.ended.is_set, what="the stream has ended")


async def test_a_followed_log_that_nobody_writes_to_begins_and_a_client_that_left_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams_module, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(streams_module, "HEARTBEAT_SECONDS", 0.01)
    source = Source()
    async with serving(route("/log", source.stream)) as url, getting(f"{url}/log") as response:
        assert response.status == 200  # the headers come although there is no line
        response.close()
        await eventually(source.ended.is_set, what="the stream has ended")


async def test_a_client_that_leaves_before_a_stream_begins_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "FIRST_SECONDS", 60.0)
    source = Source()
    with capture_logs() as logs:
        async with serving(route("/log", source.stream)) as url:
            client = await unread_stream(url)
            await asyncio.wait_for(source.began.wait(), 60)
            client.close()
            source.pieces.put_nowait(b"a line")
            source.pieces.put_nowait(b"another")
            await eventually(source.ended.is_set, what="the stream has ended")
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


@mutant("http/streams.py", "request.app[LOAD].leave(request)", "pass")
async def test_open_streams_take_no_place_of_requests() -> None:
    source = Source(b"line")
    async with serving(route("/log", source.stream), most_in_flight=1) as url, AsyncExitStack() as streams:
        for _ in range(3):
            stream = await streams.enter_async_context(getting(f"{url}/log"))
            assert await stream.content.readany() == b"line"
        async with getting(f"{url}/quick") as answer:
            assert answer.status == 200


@mutant("http/streams.py", "if len(self._open) >= self._most:", "if False:")
async def test_a_stream_above_the_bound_is_told_to_wait() -> None:
    source = Source(b"line")
    async with serving(route("/log", source.stream), streams=1) as url, getting(f"{url}/log") as stream:
        assert await stream.content.readany() == b"line"
        async with getting(f"{url}/log") as answer:
            assert answer.status == 429
            assert int(answer.headers["Retry-After"]) > 0
            assert (await answer.json())["error"]["code"] == "too_many_requests"


async def unread_stream(url: str) -> socket.socket:
    """A connection that asked for a stream and never reads."""
    host, port = url.removeprefix("http://").split("/")[0].split(":")
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    taken.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(taken, (host, int(port)))
    await loop.sock_sendall(taken, b"GET /api/v1/log HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return taken


@mutant("edge/runner.py", "        transport.abort()", "        pass")
async def test_a_client_that_stops_reading_is_cut_off() -> None:
    source = Source()
    for _ in range(400):
        source.pieces.put_nowait(b"x" * 65536)
    async with serving(route("/log", source.stream), stalled_seconds=0.2) as url:
        client = await unread_stream(url)
        await eventually(source.ended.is_set, what="the stream of the client that does not read has ended")
        client.close()
        async with getting(f"{url}/quick") as answer:
            assert answer.status == 200


@mutant("http/deadline.py", "async with asyncio.timeout(seconds)", "async with asyncio.timeout(None)")
async def test_a_request_that_takes_too_long_is_stopped_and_told_to_come_again() -> None:
    async with serving(route("/slow", wait_for_ever), request_seconds=0.05) as url, getting(f"{url}/slow") as answer:
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        error = (await answer.json())["error"]
    assert error["code"] == "service_unavailable"
    assert "longer than 0.05 s" in error["message"]


@mutant("http/streams.py", "request[DEADLINE].reschedule(None)", "pass")
async def test_a_stream_that_has_begun_outlives_the_time_of_a_request() -> None:
    source = Source()
    source.pieces.put_nowait(b"one")
    routes = (route("/log", source.stream), route("/slow", wait_for_ever))
    async with serving(*routes, request_seconds=0.05) as url, getting(f"{url}/log") as stream:
        assert await stream.content.readany() == b"one"
        async with getting(f"{url}/slow") as answer:  # began later, and its time is up
            assert answer.status == 503
        source.pieces.put_nowait(b"two")
        assert await stream.content.readany() == b"two"


@mutant("http/streams.py", "if task not in self._ended:", "if False:")
async def test_a_stream_that_does_not_begin_in_time_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "FIRST_SECONDS", 60.0)
    source = Source()
    async with serving(route("/log", source.stream), request_seconds=0.05) as url, getting(f"{url}/log") as answer:
        assert answer.status == 503
        assert (await answer.json())["error"]["code"] == "service_unavailable"
    assert source.ended.is_set()


@mutant("http/streams.py", "                del chunk  # the next", "                # the next")
async def test_a_watch_that_waits_holds_nothing_of_what_it_has_sent() -> None:
    held: list[weakref.ref[Change]] = []

    async def changes() -> AsyncGenerator[list[Change], None]:
        batch = [Change("bookmark", str(number)) for number in range(1000)]
        held.extend(map(weakref.ref, batch))
        yield batch
        del batch
        await asyncio.Event().wait()

    async def watch(call: Call[Any, Any, Any]) -> web.StreamResponse:
        return await send_changes(call.request, changes())

    async with serving(route("/watch", watch)) as url, getting(f"{url}/watch") as response:
        await response.content.readuntil(b"id: 999\n")
        await eventually(lambda: not any(change() for change in held), what="all changes are released")
