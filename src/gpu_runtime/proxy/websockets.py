"""Forwards a WebSocket to a unit: messages in both directions until one side closes."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import WSMsgType, web

from gpu_runtime.proxy.errors import UnitUnreachable
from gpu_runtime.proxy.forwarding import ForwardedRequest

LARGEST_MESSAGE = 64 * 1024 * 1024
Side = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


def is_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET"


async def pass_messages(forwarded: ForwardedRequest, client: aiohttp.ClientSession) -> web.StreamResponse:
    """Connects to the unit first: the client's upgrade is accepted only if the unit accepts it."""
    request = forwarded.request
    wanted = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if name.strip()]
    try:
        unit = await client.ws_connect(
            forwarded.url(),
            protocols=wanted,
            headers=forwarded.headers(),
            autoping=False,
            autoclose=False,
            max_msg_size=LARGEST_MESSAGE,
        )
    except aiohttp.WSServerHandshakeError as error:
        raise UnitUnreachable(
            f"GPU unit at {forwarded.prefix} refused the WebSocket with status {error.status}"
        ) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise UnitUnreachable(f"GPU unit at {forwarded.prefix} does not answer") from error
    async with unit:
        socket = web.WebSocketResponse(
            protocols=(unit.protocol,) if unit.protocol else (),
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=LARGEST_MESSAGE,
        )
        await socket.prepare(request)
        await _both_ways(socket, unit)
    return socket


async def _both_ways(socket: Side, unit: Side) -> None:
    ways = (asyncio.create_task(_pump(socket, unit)), asyncio.create_task(_pump(unit, socket)))
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pump(source: Side, sink: Side) -> None:
    while True:
        message = await source.receive()
        if message.type is WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await sink.pong(message.data)
        else:
            code = message.data if message.type is WSMsgType.CLOSE else None
            await sink.close(code=code or 1000, message=(message.extra or "").encode() if code else b"")
            await source.close()
            return
