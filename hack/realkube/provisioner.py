"""Volumes of a cluster on one machine: folders, made by the embedded cluster's own provisioner and resizer.

It is for this cluster what a CSI driver with its external provisioner is for others: Kubernetes' own controllers bind
the volumes, and the kubelet mounts them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from gpu_runtime import logs
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from gpu_runtime.local.controllers.volumes.provisioner import Provisioner, ensure_classes


async def provision(client: Client, folder: Path, stop: asyncio.Event) -> None:
    """Serve the storage classes, each volume a folder under `folder`, until `stop`."""
    recorder = Recorder(client, PROVISIONER, f"{socket.gethostname()}-{os.getpid()}")
    manager = Manager(client, recorder=recorder)
    Provisioner(manager, recorder, folder)
    await ensure_classes(client)
    await manager.run(stop)


async def serve(kubeconfig: Path, folder: Path) -> None:
    """Provision until the process ends."""
    logs.configure("info")
    async with Client(load_config(kubeconfig), user_agent="provisioner") as client:
        await provision(client, folder, asyncio.Event())
