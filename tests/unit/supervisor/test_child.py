"""A part of the cluster is there again, whether it died or hangs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from equipment.waiting import eventually
from gpu_runtime.supervisor.child import Child
from unit.supervisor import small_child

SILENT_SECONDS = 1.5


class Remembering(Child):
    """Knows all problems that it had: one may be over before anybody looks."""

    def __init__(self) -> None:
        super().__init__("part", small_child.__name__, [], lambda _: None, SILENT_SECONDS)
        self.problems: list[str] = []

    def _not_ready(self, state: str) -> None:
        self.problems.append(state)
        super()._not_ready(state)


@asynccontextmanager
async def running() -> AsyncIterator[Remembering]:
    child = Remembering()
    async with asyncio.TaskGroup() as group:
        group.create_task(child.run())
        child.begin()
        await eventually(child.ready.is_set, what="the child is ready")
        try:
            yield child
        finally:
            await child.stop(10)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_part_that_dies_or_hangs_is_replaced(number: signal.Signals) -> None:
    async with running() as child:
        before = child.pid
        assert before
        os.kill(before, number)
        await eventually(lambda: child.problems and child.problem is None, what="it is missed, and back")
        assert child.problems[0] == "killed by SIGKILL; being started again"
        assert child.pid != before
