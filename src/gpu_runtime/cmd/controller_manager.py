"""The controller-manager: reconciles StockPools and GPUUnits, one elected replica at a time."""

from __future__ import annotations

import asyncio
import gc
import os
import socket

from gpu_runtime.api.manifests import LEADER_ELECTION_LEASE
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.rbac import READ, Permissions, Rule, leader_election
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.prerequisites import report_missing
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.lease import Election
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.process import ProcessContext

PROCESS = "controller-manager"

PERMISSIONS = Permissions(
    PROCESS,
    cluster=(
        Rule(GROUP, ("stockpools",), (*READ, "delete")),
        Rule(GROUP, ("gpuunits",), (*READ, "patch", "delete")),
        Rule(GROUP, ("operations",), ("list", "watch")),
        Rule(GROUP, ("stockpools/status", "gpuunits/status"), ("update",)),
        # Owner references that block an owner's deletion need it where clusters check for that.
        Rule(GROUP, ("stockpools/finalizers", "gpuunits/finalizers"), ("update",)),
        Rule("apps", ("deployments",), (*READ, "create", "patch", "delete")),
        Rule("apps", ("replicasets",), ("list", "watch")),
        Rule("", ("services",), (*READ, "create", "patch", "delete")),
        Rule("networking.k8s.io", ("networkpolicies",), (*READ, "create", "patch", "delete")),
        Rule("", ("pods",), ("list", "watch")),
        Rule("", ("events",), ("create", "patch")),
        Rule("", ("namespaces",), ("get",)),
        Rule("scheduling.k8s.io", ("priorityclasses",), ("get",)),
    ),
    namespaces={SYSTEM_NAMESPACE: leader_election(LEADER_ELECTION_LEASE)},
)


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
    """The manager with every controller in it."""
    identity = f"{socket.gethostname()}-{os.getpid()}"
    recorder = Recorder(client, PROCESS, identity)
    lease = Key(settings.installNamespace, LEADER_ELECTION_LEASE)
    manager = Manager(
        client,
        election=Election(client, lease, identity) if settings.leaderElection.enabled else None,
        recorder=recorder,
    )
    add_controllers(manager, settings, recorder=recorder)
    return manager


async def freeze(manager: Manager) -> None:
    """Takes the filled caches out of garbage collection: walking ten thousand objects again and again finds nothing."""
    await manager.leading.wait()
    gc.collect()
    gc.freeze()
