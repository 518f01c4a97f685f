"""Collects calls into batches for a function that is faster with several payloads at once."""

from __future__ import annotations

import asyncio
from typing import Any

from gpu_runtime.serverless.framework.calls import Call
from gpu_runtime.serverless.framework.functions import Function
from gpu_runtime.serverless.framework.threads import Threads


class Batches:
    """A batch runs when it is full, or when its first call has waited for the function's limit."""

    def __init__(self, function: Function, threads: Threads) -> None:
        self._function, self._threads = function, threads
        self._waiting: list[tuple[Call, asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def result(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((call, future))
        if len(self._waiting) >= self._function.batch:
            self._start()
        elif self._timer is None:
            self._timer = loop.call_later(self._function.wait_seconds, self._start)
        return await future

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Calls that were cancelled while they waited are left out.
        calls = [(call, future) for call, future in self._waiting if not future.done()]
        self._waiting = []
        if calls:
            task = asyncio.get_running_loop().create_task(self._run(calls))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, calls: list[tuple[Call, asyncio.Future[Any]]]) -> None:
        try:
            payloads = [call.payload for call, _ in calls]
            results = await self._function.invoke(self._threads, payloads, [call for call, _ in calls])
            if not isinstance(results, list | tuple) or len(results) != len(calls):
                raise TypeError(
                    f"{self._function.name} must return a list of {len(calls)} results, one for each payload"
                )
        except Exception as error:
            results = [error] * len(calls)
        for (_, future), result in zip(calls, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
