"""Requests that wait for something that may take long. They count as streams, and the time of a request does not end
them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from aiohttp import web
from msgspec import Meta

from gpu_runtime.http.deadline import DEADLINE
from gpu_runtime.http.streams import stream_slot
from gpu_runtime.rest.invocations import LONGEST_WAIT

T = TypeVar("T")
SLICE_SECONDS = 10.0
"""A client that has left is noticed at this interval."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}

WaitTime = Annotated[
    str,
    Meta(
        max_length=8,
        pattern=r"^(0|[1-9][0-9]{0,2})(ms|s|m)?$",
        description="Wait for the end, up to this time: such as 30s or 2m, at most 600s.",
        extra={"hint": "a time such as 30s or 2m"},
    ),
]


def seconds_of(text: str) -> float:
    """The seconds of a WaitTime, at most LONGEST_WAIT. The pattern was checked before."""
    number = text.rstrip("ms")
    return min(int(number) * _UNITS[text.removeprefix(number)], LONGEST_WAIT)


async def wait(request: web.Request, seconds: float, step: Callable[[float], Awaitable[T | None]]) -> T | None:
    """What `step(seconds)` gives; None when the time is over, the client has left or the process ends.

    Afterwards the request has the time that was left before the wait.
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
