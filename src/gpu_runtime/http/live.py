"""Sends what happens to an invocation as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from aiohttp import web

from gpu_runtime.http.headers import single
from gpu_runtime.http.route import Answer
from gpu_runtime.http.streams import EVENT_STREAM, HEARTBEAT_SECONDS, send_pieces
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.live import LiveEvent, end_id, live_events
from gpu_runtime.service.invocations.lookup import FoundRun

KINDS = ["queued", "worker", "running", "output", "end", "error"]
PLAIN = "text/plain; charset=utf-8"
STREAM = Answer(
    200,
    "A server-sent event for each change, until the end.",
    media=EVENT_STREAM,
    schema={
        "type": "object",
        "description": "One server-sent event. `queued` and `running`: the invocation. `worker`: a worker that starts. "
        "`output`: a piece of the function's output. `end`: the invocation with its result; it is always the last.",
        "properties": {
            "event": {"type": "string", "enum": KINDS},
            "id": {"type": "string", "description": "Of pieces of output and of the end."},
            "data": {"type": "string", "description": "An object as JSON."},
        },
        "required": ["event", "data"],
    },
)
SEEN = Answer(204, "The header Last-Event-ID says that the client has seen the end.")


async def send_live(request: web.Request, invocations: Invocations, found: FoundRun) -> web.StreamResponse:
    """A browser's EventSource connects again after the end; 204 tells it to stop."""
    if found.end is not None and single(request, "Last-Event-ID") == end_id(found.run):
        return web.Response(status=204)
    # A browser that opens the address as a page shows plain text, and would download an event stream.
    media = PLAIN if "text/html" in request.headers.get("Accept", "") else EVENT_STREAM
    return await send_pieces(request, media, _pieces(live_events(invocations, found)), trouble=_trouble)


async def _pieces(events: AsyncGenerator[LiveEvent, None]) -> AsyncGenerator[bytes, None]:
    """The events as text, with a comment in each long pause and an empty chunk in each short one."""
    clock = asyncio.get_running_loop()
    spoke = clock.time()
    async with aclosing(events):
        async for event in events:
            if event.kind:
                spoke = clock.time()
                yield event_text(event)
            elif clock.time() - spoke > HEARTBEAT_SECONDS:
                spoke = clock.time()
                yield b": waiting\n\n"
            else:
                yield b""


def event_text(event: LiveEvent) -> bytes:
    # A body is passed on as its function wrote it. In JSON, line breaks are only between tokens.
    data = msgspec.json.encode(event.data).replace(b"\r", b" ").replace(b"\n", b" ")
    place = f"id: {event.id}\n" if event.id else ""
    return f"event: {event.kind}\n{place}data: ".encode() + data + b"\n\n"


def _trouble(error: Exception) -> bytes:
    return event_text(LiveEvent("error", {"message": str(error)}))
