"""What no client waits for. Memory only hurries it: what dies with the process is found by the sweeper."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gpu_runtime.kube.backoff import JitteredBackoff
from gpu_runtime.kube.errors import KubeError

Work = Callable[[], Awaitable[None]]
Later = Callable[[Work], Awaitable[None]]


async def at_once(work: Work) -> None:
    """For a caller who wants to see it done."""
    await work()


class AfterReply:
    """Work that goes on after the reply, until it is done or the process ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("aftermath")

    async def later(self, work: Work) -> None:
        """Begins the work, which must be safe to repeat."""
        task = asyncio.create_task(self._until_done(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float) -> None:
        """Waits for what is under way, so long at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def stop(self) -> None:
        """Leaves what is under way to others."""
        for task in self._tasks:
            task.cancel()

    async def _until_done(self, work: Work) -> None:
        backoff = JitteredBackoff()
        while True:
            try:
                return await work()
            except KubeError as error:
                self._log.warning("interrupted; going on shortly", problem=str(error))
            except Exception:
                self._log.exception("failed unexpectedly")
                return None
            await asyncio.sleep(backoff.next())
