"""The process without a broker."""

from __future__ import annotations

import asyncio

from equipment.waiting import eventually
from gpu_runtime.cmd.activator import main
from gpu_runtime.config.activator import ActivatorSettings
from gpu_runtime.kube import ProcessContext


async def test_without_a_broker_the_process_is_ready_and_waits_for_its_end() -> None:
    context = ProcessContext(asyncio.Event())
    task = asyncio.create_task(main(ActivatorSettings(), context))
    await eventually(lambda: not context.health.problems(), what="it is ready")
    assert not task.done()
    context.stop.set()
    await asyncio.wait_for(task, 30)
