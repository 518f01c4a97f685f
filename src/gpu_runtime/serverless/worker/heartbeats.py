"""Tells the activator what the worker does: every few seconds, and at once when something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nats.errors import Error

from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import WorkerHeartbeat, encode

SHORTEST_PAUSE = 0.05
"""Changes within this time are told together."""


class HeartbeatSender:
    def __init__(self, broker: Broker, subject: str, seconds: float, now: Callable[[], WorkerHeartbeat]) -> None:
        self._broker, self._subject, self._seconds, self._now = broker, subject, seconds, now
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        await self._broker.connected()
        while True:
            self._changed.clear()
            await self.send()
            await asyncio.sleep(SHORTEST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds - SHORTEST_PAUSE):
                    await self._changed.wait()

    async def send(self) -> None:
        # Without a connection old heartbeats would pile up and arrive all at once.
        if not self._broker.problem:
            with suppress(Error, OSError):
                await self._broker.nats.publish(self._subject, encode(self._now()))
