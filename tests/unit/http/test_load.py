"""Too many at once are told to wait; streams have a bound of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request

from equipment.waiting import eventually
from gpu_runtime.http import streams as streams_module
from gpu_runtime.http.load import LOAD, Load
from gpu_runtime.http.streams import Streams
from gpu_runtime.service.errors import TooManyRequests


def test_the_request_above_the_bound_is_refused_and_the_next_one_is_not() -> None:
    load = Load(1)
    one, two = make_mocked_request("GET", "/"), make_mocked_request("GET", "/")
    with load.carry(one), pytest.raises(TooManyRequests), load.carry(two):
        pass
    assert load.now == 0
    with load.carry(two):
        assert load.now == 1


def test_a_stream_is_no_longer_counted_once_it_has_begun() -> None:
    load = Load(1)
    request = make_mocked_request("GET", "/")
    with load.carry(request):
        load.leave(request)
        assert load.now == 0
    assert load.now == 0


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
    closed = asyncio.Event()

    async def silent() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one line"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def handle(request: web.Request) -> web.StreamResponse:
        with request.app[LOAD].carry(request):
            return await streams_module.send_text(request, silent())

    app = web.Application()
    app[LOAD], app[streams_module.STREAMS] = Load(1), Streams()
    app.router.add_get("/", handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        async with session.get(server.make_url("/")) as response:
            assert await response.content.readany() == b"one line"
            response.close()
        await eventually(lambda: closed.is_set() and app[LOAD].now == 0, what="the stream has ended")
