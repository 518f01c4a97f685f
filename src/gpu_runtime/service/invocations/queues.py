"""What a process knows of the queues of all functions."""

from __future__ import annotations

from typing import Protocol

from gpu_runtime.serverless.subjects import Function, Run


class Queues(Protocol):
    """Unfinished invocations, as this process has seen them. A moment behind the broker."""

    def unfinished(self, function: Function, /) -> int:
        """How many of the function have not ended."""

    def position(self, run: Run, /) -> int | None:
        """How many are before the run, plus one. None: the run is not known to wait."""


class NoQueues:
    """Knows of no queue."""

    def unfinished(self, _: Function) -> int:
        return 0

    def position(self, _: Run) -> int | None:
        return None
