"""An event loop whose time jumps to the next timer: hours of waiting take no time, and each run is the same."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
CREEP = 1e-6  # a loop that waits for the end of a deadline must reach it
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class _Jumps(selectors.SelectSelector):
    """Never waits: the time that the loop would wait is over at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for ever")
        self.now += max(timeout, CREEP)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now


class VirtualClock:
    """The time of the loop, for code that takes a clock. `ahead` is how wrong the clock of one process is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ahead: float = 0.0) -> None:
        self._loop, self._ahead = loop, ahead

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self._loop.time() + self._ahead)

    def monotonic(self) -> float:
        return self._loop.time()

    def time(self) -> float:
        return self.now().timestamp()


def play(work: Coroutine[Any, Any, T]) -> T:
    """Runs it in virtual time."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)
