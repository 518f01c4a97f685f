"""The places for calls that run at the same time."""

from __future__ import annotations

import asyncio

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.serverless.subjects import Priority
from gpu_runtime.serverless.worker.slots import Slots


@mutant("serverless/worker/slots.py", "self._give()  # its turn came at the same moment", "pass")
async def test_high_priority_is_served_first_and_no_place_is_lost() -> None:
    slots, order = Slots(1), []
    leave = asyncio.Event()

    async def use(name: str, priority: Priority) -> None:
        async with slots.one(priority):
            order.append(name)
            await leave.wait()

    names: list[tuple[str, Priority]] = [("first", "normal"), ("late", "normal"), ("urgent", "high"), ("gone", "high")]
    tasks = [asyncio.create_task(use(name, priority)) for name, priority in names]
    await asyncio.sleep(0)
    assert order == ["first"]
    tasks[3].cancel()
    leave.set()
    tasks[0].cancel()  # frees its place for `urgent` in the same step in which `urgent` is cancelled
    await asyncio.sleep(0)
    tasks[2].cancel()
    await eventually(lambda: all(task.done() for task in tasks), within=10, what="all are served or gone")
    assert "late" in order, "the place of a cancelled one goes to the next"
    async with asyncio.timeout(60), slots.one("normal"):
        pass
