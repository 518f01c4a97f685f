"""Work that goes on after the reply. If the process dies, the sweeper of any replica finishes the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gpu_runtime.kube.backoff import JitteredBackoff
from gpu_runtime.kube.errors import KubeError

Work = Callable[[], Awaitable[None]]
Later = Callable[[Work], Awaitable[None]]


async def at_once(work: Work) -> None:
    """Runs the work before returning: for callers that wait for it."""
    await work()


class AfterReply:
    """Runs work in the background until it is done or the process ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("after-reply")

    async def later(self, work: Work) -> None:
        """Starts the work. It is retried after errors, so it must be safe to repeat."""
        task = asyncio.create_task(self._until_done(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float) -> None:
        """Waits at most `seconds` for the running work."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def stop(self) -> None:
        """Cancels the running work. The sweeper finishes it."""
        for task in self._tasks:
            task.cancel()

    async def _until_done(self, work: Work) -> None:
        backoff = JitteredBackoff()
        while True:
            try:
                return await work()
            except KubeError as error:
                self._log.warning("interrupted; will retry", problem=str(error))
            except Exception:
                self._log.exception("failed unexpectedly")
                return None
            await asyncio.sleep(backoff.next())
