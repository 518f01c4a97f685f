"""`gpu-runtime up --kubeconfig` on a cluster that has a controller-manager already: one of the two works."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from equipment.fault_proxy import FaultProxy, writes
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.cmd.up.run import Options, plan
from gpu_runtime.supervisor.program import Program
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.test_process import controller_manager
from kube.controllers.world import World
from realkube.process import free_ports

CONTROLLER_MANAGER = "controller-manager"
OURS = writes().by(f"gpu-runtime-{CONTROLLER_MANAGER}") & ~writes("leases")


@asynccontextmanager
async def started(program: Program, log: Path) -> AsyncIterator[None]:
    """The process as `up` would start it, when it says that it is ready."""
    with log.open("w") as out:
        environment = {**os.environ, **program.environment}
        process = await asyncio.create_subprocess_exec(*program.command, stdout=out, stderr=out, env=environment)
        try:

            async def ready() -> bool:
                try:
                    async with aiohttp.ClientSession() as http, http.get(program.health) as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            await eventually(ready, what="the process of `up` is ready")
            yield
        finally:
            process.kill()
            await process.wait()


@mutant("cmd/up/run.py", "own_cluster = options.kubeconfig is None", "own_cluster = True")
async def test_up_on_a_cluster_with_a_controller_manager_stands_by_and_takes_over(
    world: World, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    layout = Layout.at(tmp_path / "data")
    layout.supervised.make()
    given = Options(layout, port=free_ports(1)[0], kubeconfig=fault_proxy.server.kubeconfig)
    _, _, programs = await plan(given)
    program = next(each for each in programs if each.name == CONTROLLER_MANAGER)
    # Another link than that of `up`: two that work would write theirs in turn.
    config = "units: {accessURL: 'http://installed/{namespace}/{name}/'}\n"
    async with controller_manager(world.server, tmp_path, config) as installed:

        async def leads() -> bool:
            return "leading" in [line.get("event") for line in installed.lines()]

        await eventually(leads, what="the installed one leads")
        async with started(program, tmp_path / "up.log"):
            await world.create(demo_unit(world).spec(access={}))
            await world.becomes("GPUUnit", "demo", "UnitReady")
            assert [str(write) for write in fault_proxy.writes(OURS)] == []
            installed.process.terminate()
            await installed.process.wait()
            await world.change("Deployment", "demo", {"spec": {"replicas": 0}})
            await fault_proxy.seen(OURS)
            await world.becomes("GPUUnit", "demo", "UnitReady")
