"""An agent for tests to kill: brings about the pods of a goal, whatever an earlier one left, and then waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from gpu_runtime.local.node.capabilities import decide, probe
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import ContainerSpec, PodSpec


class Goal(msgspec.Struct):
    """A pod with one container, to be started exactly once; removed after its end when `passing`."""

    pod: PodSpec
    container: ContainerSpec
    passing: bool = False


async def bring_about(runtime: PodRuntime, goal: Goal) -> None:
    uid, name = goal.pod.uid, goal.container.name
    seen = runtime.get(uid)
    if seen is None or (not seen.alive and not seen.runs):
        seen = await runtime.run_pod(goal.pod)
    run = seen.latest(name)
    if run is None or run.state is None:
        await runtime.start_container(uid, goal.container)
    if goal.passing:
        await runtime.wait_container(uid, name, 0)
        await runtime.stop_pod(uid)


async def main(data_dir: Path, goals: list[Goal]) -> None:
    async with PodRuntime(data_dir, decide(probe(data_dir)), gpus=simulated(8)) as runtime:
        sys.stdout.write("adopted\n")
        sys.stdout.flush()
        async with asyncio.TaskGroup() as tasks:
            for goal in goals:
                tasks.create_task(bring_about(runtime, goal))
        sys.stdout.write("done\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=list[Goal])))
