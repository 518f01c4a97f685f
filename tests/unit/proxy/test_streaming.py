from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from equipment.waiting import eventually
from unit.proxy.world import UNIT, proxy_to


async def test_bodies_stream_in_both_directions_at_once() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for piece in request.content.iter_any():
            await response.write(piece)
        return response

    told: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def words() -> AsyncIterator[bytes]:
        while (word := await told.get()) is not None:
            yield word

    async with served(echo) as unit_port, proxy_to(unit_port) as port, aiohttp.ClientSession() as client:
        await told.put(b"first")
        async with client.post(f"http://127.0.0.1:{port}{UNIT}/", data=words()) as answer:
            assert await answer.content.readany() == b"first"  # while the request is still being sent
            await told.put(b"second")
            assert await answer.content.readany() == b"second"
            await told.put(None)
            assert await answer.content.read() == b""


async def test_a_client_that_leaves_ends_the_request_to_the_unit() -> None:
    left = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"tick\n")
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async with served(endless) as unit_port, proxy_to(unit_port) as port:
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{UNIT}/") as answer:
            assert await answer.content.readany()
        await eventually(left.is_set, what="the unit sees that nobody listens")


async def test_websockets_pass_both_ways_with_protocol_and_close_code() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        async for message in socket:
            if message.data == "end":
                await socket.close(code=4001, message=b"as asked")
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(f"echo {message.data}")
            else:
                await socket.send_bytes(message.data)
        return socket

    async with served(echo) as unit_port, proxy_to(unit_port) as port, aiohttp.ClientSession() as client:
        socket = await client.ws_connect(f"http://127.0.0.1:{port}{UNIT}/ws", protocols=("other", "chat"))
        assert socket.protocol == "chat"
        await socket.send_str("hello")
        assert await socket.receive_str() == "echo hello"
        await socket.send_bytes(b"\x00\x01")
        assert await socket.receive_bytes() == b"\x00\x01"
        await socket.send_str("end")
        last = await socket.receive()
        assert (last.type, socket.close_code) == (aiohttp.WSMsgType.CLOSE, 4001)


async def test_a_unit_that_takes_no_websocket_is_a_bad_gateway() -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="a page")

    async with served(page) as unit_port, proxy_to(unit_port) as port, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"http://127.0.0.1:{port}{UNIT}/")
    assert refused.value.status == 502


def served(handler: object) -> Served:
    return Served(handler)


class Served:
    """A unit that is an aiohttp application of one handler."""

    def __init__(self, handler: object) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)

    async def __aenter__(self) -> int:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
