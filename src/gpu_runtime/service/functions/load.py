"""How many invocations of a function wait and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpu_runtime.api.meta.object import Key
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.subjects import Function


class Load(NamedTuple):
    """Unfinished invocations: those that wait, and those that workers say they run."""

    queued: int
    running: int


LoadOf = Callable[[Key], Load | None]


def unknown_load(_: Key) -> Load | None:
    """Without a broker nothing is known."""
    return None


def load_of(backlog: Backlog, heartbeats: Heartbeats) -> LoadOf:
    """The load of functions, as far as the broker has told; None while that may be incomplete."""

    def of(key: Key) -> Load | None:
        if backlog.problem:
            return None
        function = Function(key.namespace, key.name)
        unfinished = {run.key for run in backlog.runs(function)}
        # A heartbeat may still name a run that has ended since.
        said = {name for beat in heartbeats.of(function).values() for name in beat.said.running}
        running = len(said & unfinished)
        return Load(len(unfinished) - running, running)

    return of
