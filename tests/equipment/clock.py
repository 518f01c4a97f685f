"""Clocks of tests: one that stands still until a test moves it, and one that is ahead of the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpu_runtime.kube.clock import SystemClock


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Later(SystemClock):
    """A clock ahead of the server, so that every object seems old: the code waits for no executor."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=1)
