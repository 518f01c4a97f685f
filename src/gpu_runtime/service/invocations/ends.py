"""Waits for the end of a run."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.messages import ResultMessage
from gpu_runtime.serverless.subjects import Run
from gpu_runtime.service.invocations.lookup import Lookup

POLL_SECONDS = 10.0
"""The backlog is behind while it loads and while the connection is lost, so the end is also looked for at this
interval."""


class Ends:
    """Tells requests that a run has ended, wherever it was ended."""

    def __init__(self, backlog: Backlog, lookup: Lookup) -> None:
        self._backlog = backlog
        self._lookup = lookup

    async def wait(self, run: Run, seconds: float) -> ResultMessage | None:
        """The end of the run; None if it has none after `seconds`. Trouble with the broker only delays the answer."""
        clock = asyncio.get_running_loop()
        limit = clock.time() + seconds
        with self._backlog.ending(run) as ended:
            while True:
                ended.clear()  # before the look: the run may end while it is looked for
                end = await self.look(run)
                if end is not None or (left := limit - clock.time()) <= 0:
                    return end
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_SECONDS)):
                        await ended.wait()

    async def look(self, run: Run) -> ResultMessage | None:
        """The end, if it can be read now."""
        try:
            return await self._lookup.end(run)
        except Unavailable:
            return None
