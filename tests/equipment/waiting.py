"""Waiting for a condition, with a deadline that only a broken program reaches.

The polls below hold the only sleeps of the test suite: whatever a test waits for, it says as a condition.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25
PATIENCE = float(os.environ.get("GPU_RUNTIME_TEST_PATIENCE", "1"))
"""Factor on every deadline: `make mutants` lowers it, because there most waits time out."""


class _Attempts:
    """Remembers the last answer of a probe, so that a failure can show it."""

    def __init__(self, what: str, within: float) -> None:
        self.what = what
        self.within = within * PATIENCE
        self.count = 0
        self.last = "the probe was never called"
        self.pause = FIRST_PAUSE
        self._deadline = time.monotonic() + self.within

    def note(self, last: str) -> None:
        self.count += 1
        self.last = last

    def next_pause(self) -> float:
        """How long to wait before asking again; raises when the time is up."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(
                f"{self.what}: not within {self.within:g} s ({self.count} attempts); last seen: {self.last}"
            )
        pause, self.pause = min(self.pause, left), min(self.pause * 1.5, LONGEST_PAUSE)
        return pause


@overload
async def eventually(probe: Callable[[], Awaitable[T]], *, within: float = ..., what: str = ...) -> T: ...
@overload
async def eventually(probe: Callable[[], T], *, within: float = ..., what: str = ...) -> T: ...
async def eventually(
    probe: Callable[[], Awaitable[T] | T], *, within: float = 60.0, what: str = "the awaited condition"
) -> T:
    """The first truthy value of `probe`, a plain or async callable; an AssertionError in it means "not yet"."""
    attempts = _Attempts(what, within)
    while True:
        try:
            answer = probe()
            value: T = await answer if inspect.isawaitable(answer) else answer
        except AssertionError as error:
            attempts.note(f"AssertionError: {error}")
        else:
            if value:
                return value
            attempts.note(repr(value))
        await asyncio.sleep(attempts.next_pause())


def eventually_sync(probe: Callable[[], T], *, within: float = 60.0, what: str = "the awaited condition") -> T:
    """`eventually` for a test without an event loop."""
    attempts = _Attempts(what, within)
    while True:
        try:
            value = probe()
        except AssertionError as error:
            attempts.note(f"AssertionError: {error}")
        else:
            if value:
                return value
            attempts.note(repr(value))
        time.sleep(attempts.next_pause())


class Changes:
    """Wakes those who wait for a condition each time that something changed: no polling."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def until(self, probe: Callable[[], T]) -> T:
        """The first truthy value of `probe`, asked again after each change; waits for ever."""
        while not (value := probe()):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return value

    async def expect(self, probe: Callable[[], T], *, within: float, what: Callable[[], str]) -> T:
        """`until` with a deadline; `what` describes the failure when it is reached."""
        within *= PATIENCE
        try:
            async with asyncio.timeout(within):
                return await self.until(probe)
        except TimeoutError:
            raise AssertionError(f"not within {within:g} s: {what()}") from None
