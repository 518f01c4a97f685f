"""Whether the framework can take calls: asked again and again, for as long as the worker lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.serverless.worker.framework import Framework, SlowHealth

READY_SECONDS = 2.0
_pauses = Exponential(0.02, 1.0)


class Readiness:
    """Follows the health of the framework. `busy` says whether a call runs: then a slow answer is no problem."""

    def __init__(self, framework: Framework, *, busy: Callable[[], bool], changed: Callable[[], None]) -> None:
        self._framework, self._busy, self._changed = framework, busy, changed
        self.problem = "the framework was not asked yet"
        """Why the framework cannot take calls; empty when it can."""
        self._ready = asyncio.Event()
        self._look = asyncio.Event()
        self._log = structlog.get_logger("framework")

    async def ready(self) -> None:
        """Returns when the framework can take calls."""
        await self._ready.wait()

    def doubt(self, problem: str = "") -> None:
        """Asks at once, because a call failed. With a problem the framework counts as not ready until then."""
        if problem:
            self._set(problem)
        self._look.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._look.clear()
            self._set(await self._ask())
            failures = failures + 1 if self.problem else 0
            pause = _pauses.after(failures - 1) if failures else READY_SECONDS
            try:
                async with asyncio.timeout(pause):
                    await self._look.wait()
            except TimeoutError:
                continue
            # Every refused call asks for another look. Keep the pause while the framework is not ready.
            if failures:
                await asyncio.sleep(pause)

    async def _ask(self) -> str:
        try:
            return await self._framework.health()
        except SlowHealth as slow:
            return self.problem if self._busy() else str(slow)

    def _set(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            self._ready.clear()
            self._log.info("the framework is not ready", problem=problem)
        else:
            self._ready.set()
            self._log.info("the framework is ready")
        self._changed()
