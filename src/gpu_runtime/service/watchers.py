"""Watchers that wait for a change."""

from __future__ import annotations

import asyncio

WAKE_GROUP_SIZE = 16  # watchers woken in one iteration of the event loop
GATHER_SECONDS = 0.02  # watchers are woken at most once in this time


class Watchers:
    """Wakes waiting watchers in small groups, so that other requests are served in between."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._round: list[asyncio.Future[None]] = []
        self._due = False
        self._next: asyncio.Handle | None = None

    async def wait(self, seconds: float) -> bool:
        """Whether a change came within `seconds`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(waiter, None)
        return True

    def wake(self) -> None:
        """Wakes all waiting watchers, once for several changes within GATHER_SECONDS."""
        if not self._waiting:
            return
        self._due = True
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        if self._due and not self._round:
            self._due, self._round = False, list(self._waiting)
        group, self._round = self._round[:WAKE_GROUP_SIZE], self._round[WAKE_GROUP_SIZE:]
        for waiter in group:
            if not waiter.done():
                waiter.set_result(None)
        loop = asyncio.get_running_loop()
        if self._round:
            self._next = loop.call_soon(self._wake_some)
        else:
            self._next = loop.call_later(GATHER_SECONDS, self._end_round)

    def _end_round(self) -> None:
        self._next = None
        if self._due:
            self._wake_some()
