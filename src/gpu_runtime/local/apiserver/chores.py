"""Periodic work of the server. `/readyz` names a chore that failed, until a later run succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpu_runtime.local.apiserver.reports import failed


class Chores:
    """Periodic tasks by name. A failure of one does not stop the others."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, str] = {}

    def start(self, name: str, seconds: float, chore: Callable[[], None]) -> None:
        """Runs `chore` every `seconds`."""
        self._tasks[name] = asyncio.create_task(self._repeat(name, seconds, chore), name=name)

    async def _repeat(self, name: str, seconds: float, chore: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                chore()
            except Exception as error:
                failed("chore failed", chore=name)
                self._failed[name] = f"failed, and is tried again: {error!r}"
            else:
                self._failed.pop(name, None)

    def problems(self) -> dict[str, str]:
        """Each chore that failed at its last run or has ended, and why."""
        ended = {name: "ended, and is not done any more" for name, task in self._tasks.items() if task.done()}
        return {**self._failed, **ended}

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
