"""Answers that go on: server-sent events and logs, ended with the process and bounded in number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

import msgspec
import structlog
from aiohttp import web

from gpu_runtime.http.load import LOAD
from gpu_runtime.http.route import Answer
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.service.errors import ServiceError, TooManyRequests
from gpu_runtime.service.observing import Change

EVENT_STREAM = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
MOST_STREAMS = 500

CHANGES = Answer(200, "With watch=true: a server-sent event for every change.", media=EVENT_STREAM)


class Streams:
    """The open streams of one process."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._open: set[asyncio.Task[object]] = set()

    async def close(self, _: web.Application) -> None:
        """Ends all streams, so that the process can end; clients resume elsewhere."""
        for task in list(self._open):
            task.cancel()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Counts one stream; when the process ends, the block is left early and in order."""
        if len(self._open) >= self._most:
            raise TooManyRequests(f"more than {self._most} streams at once: wait a moment")
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            yield
        except asyncio.CancelledError:
            task.uncancel()
        finally:
            self._open.discard(task)


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


@asynccontextmanager
async def _slot(request: web.Request) -> AsyncIterator[None]:
    async with request.app[STREAMS].slot():
        request.app[LOAD].leave(request)
        yield


async def send_changes(
    request: web.Request, changes: AsyncGenerator[Change, None], phase: str = ""
) -> web.StreamResponse:
    """Sends every change as an event; `id` is what a client sends as Last-Event-ID to go on from there."""

    def trouble(error: Exception) -> bytes:
        return b"event: error\ndata: " + msgspec.json.encode({"message": str(error)}) + b"\n\n"

    async def events() -> AsyncGenerator[bytes, None]:
        async with aclosing(changes):
            async for change in changes:
                yield _event(change, phase)

    return await _send(request, EVENT_STREAM, events(), silence=b": still here\n\n", trouble=trouble)


async def send_text(request: web.Request, pieces: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    """Sends text as it comes."""

    def trouble(error: Exception) -> bytes:
        structlog.get_logger("http").warning("a log ended early", problem=str(error))
        return b""

    return await _send(request, "text/plain; charset=utf-8", pieces, silence=b"", trouble=trouble)


async def _send(
    request: web.Request,
    media: str,
    pieces: AsyncGenerator[bytes, None],
    *,
    silence: bytes,
    trouble: Callable[[Exception], bytes],
) -> web.StreamResponse:
    """Sends pieces until they end or the client is gone. What goes wrong before the first is a proper answer."""
    response = web.StreamResponse(headers={"Content-Type": media, "X-Accel-Buffering": "no"})
    async with _slot(request), aclosing(pieces):
        first = await anext(pieces, b"")
        await response.prepare(request)
        try:
            await response.write(first)
            async for piece in _while_connected(request, pieces, silence):
                await response.write(piece)
        except ConnectionError:
            return response
        except (KubeError, ServiceError) as error:
            with suppress(ConnectionError):
                await response.write(trouble(error))
    with suppress(ConnectionError):
        await response.write_eof()
    return response


async def _while_connected(
    request: web.Request, pieces: AsyncGenerator[bytes, None], silence: bytes
) -> AsyncIterator[bytes]:
    """The pieces, with `silence` through every long pause: proxies close connections without traffic.

    A client that went away shows in a pause too: a log that nobody writes to would otherwise be followed for ever.
    """
    while True:
        pending = asyncio.ensure_future(anext(pieces, None))
        try:
            while not (await asyncio.wait((pending,), timeout=HEARTBEAT_SECONDS))[0]:
                if request.transport is None or request.transport.is_closing():
                    return
                if silence:
                    yield silence
            piece = pending.result()
        finally:
            if not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
        if piece is None:
            return
        yield piece


def _event(change: Change, phase: str) -> bytes:
    lines = [f"event: {change.kind}".encode()]
    if change.version:
        lines.append(f"id: {change.version}".encode())
    if change.unit is not None and phase and change.kind != "deleted" and change.unit.phase != phase:
        lines[0] = b"event: bookmark"  # what the filter hides is still a place to resume from
        lines.append(b"data: {}")
    else:
        lines.append(b"data: " + (msgspec.json.encode(change.unit) if change.unit is not None else b"{}"))
    return b"\n".join(lines) + b"\n\n"
