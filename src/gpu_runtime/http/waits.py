"""Requests that wait for something that may take long. They count as streams, and the time of a request does not end
them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from gpu_runtime.http.deadline import DEADLINE
from gpu_runtime.http.streams import stream_slot

T = TypeVar("T")
SLICE_SECONDS = 10.0
"""A client that has left is noticed at this interval."""


async def wait(request: web.Request, seconds: float, step: Callable[[float], Awaitable[T | None]]) -> T | None:
    """What `step(seconds)` gives; None when the time is over, the client has left or the process ends.

    Afterwards the request has the time of a new request.
    """
    clock = asyncio.get_running_loop()
    limit = clock.time() + seconds
    found: T | None = None
    deadline = request[DEADLINE]
    allowed = (deadline.when() or clock.time()) - clock.time()
    async with stream_slot(request):
        deadline.reschedule(None)
        while found is None and (left := limit - clock.time()) > 0 and _is_connected(request):
            found = await step(min(left, SLICE_SECONDS))
    deadline.reschedule(clock.time() + allowed)
    return found


def _is_connected(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()
