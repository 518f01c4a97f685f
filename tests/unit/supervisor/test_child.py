"""A part of the cluster is there again, whether it died or hangs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.supervisor.child import RESTARTS, Child
from unit.supervisor import small_child

SILENT_SECONDS = 1.5


class Remembering(Child):
    """Knows all problems that it had: one may be over before anybody looks."""

    def __init__(self, module: str = small_child.__name__) -> None:
        super().__init__("part", module, [], lambda _: None, SILENT_SECONDS)
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


@mutant("supervisor/child.py", "failures = 0 if self.ready.is_set() else failures + 1", "failures = 0")
async def test_a_part_that_never_comes_so_far_is_started_again_ever_more_seldom() -> None:
    child = Remembering("this")  # a module that says something and ends
    child.begin()
    with capture_logs() as said:
        async with asyncio.TaskGroup() as group:
            group.create_task(child.run())
            await eventually(lambda: child.starts > 3, what="it was started several times")
            await child.stop(10)
    waits = [entry["seconds"] for entry in said if entry["event"] == "died; starting it again"]
    assert waits[:3] == [RESTARTS.after(failures) for failures in (1, 2, 3)]
