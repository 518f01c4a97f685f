"""The activator: reconciles GPUFunctions. Only the elected leader reconciles."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping

import structlog

from gpu_runtime.activator.registration import Activator, add_functions
from gpu_runtime.activator.signer import WorkerSigner
from gpu_runtime.api.meta.object import Key
from gpu_runtime.cmd.processes import ACTIVATOR
from gpu_runtime.config.activator import ActivatorSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.lease import Election
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.process import ProcessContext
from gpu_runtime.serverless.broker.connection import Broker


async def main(settings: ActivatorSettings, process: ProcessContext) -> None:
    if not settings.nats.servers:
        structlog.get_logger("activator").info("nats.url is not set: there are no serverless functions")
        process.health.add()
        await process.stop.wait()
        return
    async with process.kubernetes() as client, Broker(settings.nats, ACTIVATOR.name) as broker:
        manager, activator = build(client, broker, settings)
        process.health.add(manager.checks, manager.metrics.registry)
        process.health.add(lambda: checks(activator, broker))
        async with asyncio.TaskGroup() as side:
            tasks = [side.create_task(activator.run()), side.create_task(end_when_lost(broker))]
            await manager.run(process.stop)
            for task in tasks:
                task.cancel()


def build(client: Client, broker: Broker, settings: ActivatorSettings) -> tuple[Manager, Activator]:
    """A manager with the controller of functions added, and what runs beside it."""
    identity = f"{socket.gethostname()}-{os.getpid()}"
    recorder = Recorder(client, ACTIVATOR.name, identity)
    lease = Key(settings.installNamespace, ACTIVATOR.lease)
    manager = Manager(
        client,
        election=Election(client, lease, identity) if settings.leaderElection.enabled else None,
        recorder=recorder,
    )
    signer = WorkerSigner.read(settings.signingKeyFile)
    return manager, add_functions(manager, broker, settings, signer=signer, recorder=recorder)


def checks(activator: Activator, broker: Broker) -> Mapping[str, str | None]:
    return {"broker": broker.problem or None, "backlog": activator.backlog.problem or None}


async def end_when_lost(broker: Broker) -> None:
    """Ends the process when the connection is closed for good, such as after its credentials were withdrawn."""
    await broker.lost.wait()
    raise ConfigError("the broker closed the connection for good: check the credentials")
