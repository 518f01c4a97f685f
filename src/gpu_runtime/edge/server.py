"""The HTTP server of a process, started and stopped in order with its caches and background work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from gpu_runtime.edge.names import split_address, url_of
from gpu_runtime.edge.runner import Runner
from gpu_runtime.kube.manager import Manager


async def _nothing() -> None:
    return None


class HttpServer:
    """Serves until `stop`. Then it accepts no new requests, finishes the running ones, and stops its caches last."""

    def __init__(self, runner: Runner, address: str, caches: Manager | None = None) -> None:
        self.started = asyncio.Event()
        self.url = ""
        self._runner = runner
        self._host, self._port = split_address(address)
        self._caches = caches
        self._log = structlog.get_logger("http")

    async def run(
        self,
        stop: asyncio.Event,
        *,
        background: Callable[[], Coroutine[Any, Any, None]] | None = None,
        finish: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """`background` runs until `finish` has returned. `finish` is called after the last request."""
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            if self._caches is not None:
                group.create_task(self._caches.run(ended))
            work = group.create_task(background()) if background is not None else None
            async with self._listening():
                await stop.wait()
                self._log.info("stopping: no new requests are accepted")
            await finish()
            if work is not None:
                work.cancel()
            ended.set()

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        await self._runner.setup()
        try:
            port = await self._runner.listen(self._host, self._port)
            self.url = url_of(self._host, port)
            self._log.info("serving", url=self.url)
            self.started.set()
            yield
        finally:
            await self._runner.cleanup()
