"""Streaming responses: server-sent events and logs. Their number is limited, and they end with the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import msgspec
import structlog
from aiohttp import web

from gpu_runtime.http.deadline import DEADLINE
from gpu_runtime.http.headers import last_event_id
from gpu_runtime.http.load import LOAD
from gpu_runtime.http.parameters import GetOrWatch, ListOrWatch
from gpu_runtime.http.route import Answer
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.rest.errors import ServiceError, TooManyRequests
from gpu_runtime.service.feed import Change, Wanted
from gpu_runtime.service.watching import Watching

EVENT_STREAM = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
MOST_STREAMS = 500
FIRST_SECONDS = 2.0  # after this time the headers are sent, even if the log is still empty
EVENTS_A_WRITE = 100

CHANGES = Answer(200, "With watch=true: a server-sent event for each change.", media=EVENT_STREAM)
_log = structlog.get_logger("http")


class Streams:
    """The open streams of one process."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._open: set[asyncio.Task[object]] = set()
        self._ended: set[asyncio.Task[object]] = set()

    async def close(self, _: web.Application) -> None:
        """Ends all streams, so that the process can end. Clients resume at another replica."""
        for task in list(self._open):
            self._ended.add(task)
            task.cancel()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Counts one stream. When the process ends, the block is left early without an error."""
        if len(self._open) >= self._most:
            raise TooManyRequests(f"more than {self._most} streams at once: try again later")
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended:
                raise  # cancelled by other code, such as the request's deadline
            task.uncancel()
        finally:
            self._open.discard(task)
            self._ended.discard(task)


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


@asynccontextmanager
async def stream_slot(request: web.Request) -> AsyncIterator[None]:
    """Counts the request as a stream and no longer as a request in flight: the two have separate limits."""
    async with request.app[STREAMS].slot():
        request.app[LOAD].leave(request)
        yield


async def watch(
    request: web.Request, watching: Watching[Any], wanted: Wanted, asked: GetOrWatch | ListOrWatch
) -> web.StreamResponse:
    """Sends the objects that exist, then each change, for the time that was asked for."""
    changes = watching.changes(
        wanted,
        selector=asked.labelSelector if isinstance(asked, ListOrWatch) else "",
        since=last_event_id(request, asked.resourceVersion),
        seconds=asked.timeoutSeconds,
        pause=HEARTBEAT_SECONDS,
    )
    return await send_changes(request, changes)


async def send_changes(request: web.Request, changes: AsyncGenerator[Sequence[Change], None]) -> web.StreamResponse:
    """Sends each change as an event. A client sends its `id` as Last-Event-ID to resume from there."""

    def trouble(error: Exception) -> bytes:
        return b"event: error\ndata: " + msgspec.json.encode({"message": str(error)}) + b"\n\n"

    async def events() -> AsyncGenerator[bytes, None]:
        async with aclosing(changes):
            async for chunk in changes:
                for first in range(0, len(chunk), EVENTS_A_WRITE):
                    yield b"".join(map(_event, chunk[first : first + EVENTS_A_WRITE]))
                del chunk  # the next chunk may take hours, and this one may be a whole list

    return await send_pieces(request, EVENT_STREAM, events(), trouble=trouble)


async def send_text(request: web.Request, pieces: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    """Sends text as it arrives."""

    def trouble(error: Exception) -> bytes:
        _log.warning("a log ended early", problem=str(error))
        return b""

    return await send_pieces(request, "text/plain; charset=utf-8", _with_pauses(pieces), trouble=trouble)


async def send_pieces(
    request: web.Request, media: str, pieces: AsyncGenerator[bytes, None], *, trouble: Callable[[Exception], bytes]
) -> web.StreamResponse:
    """Sends chunks until they end or the client is gone. An error before the first chunk becomes a normal HTTP error.

    `pieces` must yield regularly, if only an empty chunk: a lost client is noticed only then.
    """
    response = web.StreamResponse(headers={"Content-Type": media, "X-Accel-Buffering": "no"})
    async with stream_slot(request), aclosing(pieces):
        piece = await anext(pieces, b"")
        request[DEADLINE].reschedule(None)  # a stream that has begun has no time limit
        try:
            await response.prepare(request)
            await _write(request, response, piece)
            async for piece in pieces:
                await _write(request, response, piece)
        except ConnectionError:
            return response
        except (KubeError, ServiceError) as error:
            with suppress(ConnectionError):
                await _write(request, response, trouble(error))
    with suppress(ConnectionError):
        await response.write_eof()
    return response


async def _write(request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
    """Writes the piece; ConnectionError when the client is gone. `edge.runner` cuts off clients that stop reading."""
    if request.transport is None or request.transport.is_closing():
        raise ConnectionResetError
    if piece:
        await response.write(piece)


async def _with_pauses(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The chunks, with an empty one in each long pause."""
    async with aclosing(pieces):
        pause = FIRST_SECONDS
        while True:
            pending = asyncio.ensure_future(anext(pieces, None))
            try:
                while not (await asyncio.wait((pending,), timeout=pause))[0]:
                    pause = HEARTBEAT_SECONDS
                    yield b""
                piece = pending.result()
            finally:
                if not pending.done():
                    pending.cancel()
                    await asyncio.gather(pending, return_exceptions=True)
            if piece is None:
                return
            yield piece


def _event(change: Change) -> bytes:
    place = f"id: {change.version}\n" if change.version else ""
    return f"event: {change.kind}\n{place}data: ".encode() + change.data + b"\n\n"
