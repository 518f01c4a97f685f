"""Waits for the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import ResultMessage
from gpu_runtime.serverless.subjects import Run
from gpu_runtime.service.invocations.lookup import Lookup

POLL_SECONDS = 5.0
"""A wake-up may be lost while the connection is, so the end is also looked for at this interval."""
STORE_SECONDS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Pauses between looks after a wake-up: it comes with the publish, before the broker has the end on disk."""


class Ends:
    """Tells requests that a run has ended, wherever it was ended."""

    def __init__(self, broker: Broker, lookup: Lookup) -> None:
        self._broker = broker
        self._lookup = lookup

    async def wait(self, run: Run, seconds: float) -> ResultMessage | None:
        """The end of the run; None if it has none after `seconds`. Trouble with the broker only delays the answer."""
        clock = asyncio.get_running_loop()
        limit = clock.time() + seconds
        async with self._woken(run) as woken:
            end = await self._look(run)
            while end is None and (left := limit - clock.time()) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), min(left, POLL_SECONDS))
                pauses = STORE_SECONDS if woken.is_set() else (0.0,)
                woken.clear()
                for pause in pauses:
                    await asyncio.sleep(pause)
                    if (end := await self._look(run)) is not None:
                        break
        return end

    async def _look(self, run: Run) -> ResultMessage | None:
        try:
            return await self._lookup.end(run)
        except Unavailable:
            return None

    @asynccontextmanager
    async def _woken(self, run: Run) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever somebody publishes an end of the run, also one that comes too late."""
        woken = asyncio.Event()

        async def wake(_: Msg) -> None:
            woken.set()

        if self._broker.problem:
            yield woken
            return
        try:
            subscription = await self._broker.nats.subscribe(subjects.ended(run), cb=wake)
        except (Error, OSError):
            yield woken
            return
        try:
            yield woken
        finally:
            with suppress(Error, OSError):
                await subscription.unsubscribe()
