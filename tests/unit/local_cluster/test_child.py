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
from gpu_runtime.local.cluster.child import Child
from unit.local_cluster import small_child

SILENT_SECONDS = 1.5


@asynccontextmanager
async def running() -> AsyncIterator[Child]:
    child = Child("part", small_child.__name__, [], lambda _: None, SILENT_SECONDS)
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
        await eventually(lambda: child.problem == "killed by SIGKILL; being started again", what="it is missed")
        await eventually(lambda: child.problem is None, what="it is back")
        assert child.pid != before
