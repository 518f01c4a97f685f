"""The time limit of one request, for all its calls to the cluster together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from gpu_runtime.rest.errors import Unavailable

REQUEST_SECONDS = 30.0
LIMIT: web.AppKey[float] = web.AppKey("request_seconds", float)
DEADLINE: web.RequestKey[asyncio.Timeout] = web.RequestKey("deadline", asyncio.Timeout)


def extend_deadline(request: web.Request, seconds: float) -> None:
    """Gives the request this time from now on, if it has less.

    For work that must not be stopped half-way: the client could not find out its outcome.
    """
    limit, wanted = request[DEADLINE], asyncio.get_running_loop().time() + seconds
    if (when := limit.when()) is not None and when < wanted:
        limit.reschedule(wanted)


@asynccontextmanager
async def deadline(request: web.Request) -> AsyncIterator[None]:
    """Cancels the block when its time is up and raises Unavailable.

    A request may be stopped at any line: its progress is in a record in the cluster, and a repeated request continues
    from there.
    """
    seconds = request.app[LIMIT]
    try:
        async with asyncio.timeout(seconds) as limit:
            request[DEADLINE] = limit
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise Unavailable(
            f"this took longer than {seconds:g} s and was stopped; send the same request again"
        ) from error
