"""The controller-manager: reconciles StockPools and GPUUnits. Only the elected leader reconciles."""

from __future__ import annotations

import asyncio
import gc
import os
import socket

from gpu_runtime.api.meta.object import Key
from gpu_runtime.cmd.processes import CONTROLLER_MANAGER
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.prerequisites import report_missing
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.lease import Election
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.process import ProcessContext


async def main(settings: ControllerManagerSettings, process: ProcessContext) -> None:
    async with process.kubernetes() as client:
        manager = build(client, settings)
        process.health.add(manager.checks, manager.metrics.registry)
        async with asyncio.TaskGroup() as side:
            tasks = [side.create_task(report_missing(client, settings)), side.create_task(freeze(manager))]
            await manager.run(process.stop)
            for task in tasks:
                task.cancel()


def build(client: Client, settings: ControllerManagerSettings) -> Manager:
    """A manager with all controllers added."""
    identity = f"{socket.gethostname()}-{os.getpid()}"
    recorder = Recorder(client, CONTROLLER_MANAGER.name, identity)
    lease = Key(settings.installNamespace, CONTROLLER_MANAGER.lease)
    manager = Manager(
        client,
        election=Election(client, lease, identity) if settings.leaderElection.enabled else None,
        recorder=recorder,
    )
    add_controllers(manager, settings, recorder=recorder)
    return manager


async def freeze(manager: Manager) -> None:
    """Excludes the filled caches from Python's garbage collection: scanning ten thousand live objects frees nothing."""
    await manager.leading.wait()
    gc.collect()
    gc.freeze()
