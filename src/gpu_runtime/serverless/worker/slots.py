"""Limits the calls that run at the same time. A waiting call of high priority goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_runtime.serverless.subjects import Priority


class Slots:
    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[Priority, list[asyncio.Future[None]]] = {"high": [], "normal": []}

    @asynccontextmanager
    async def one(self, priority: Priority) -> AsyncIterator[None]:
        await self._take(priority)
        try:
            yield
        finally:
            self._give()

    async def _take(self, priority: Priority) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()  # its turn came at the same moment
            else:
                self._waiting[priority].remove(turn)
            raise

    def _give(self) -> None:
        for waiting in self._waiting.values():
            while waiting:
                turn = waiting.pop(0)
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
