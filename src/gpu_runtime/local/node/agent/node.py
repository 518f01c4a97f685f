"""The Node object: what this machine offers, and the heartbeat that says it is there."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import AlreadyExists, KubeError, NotFound
from gpu_runtime.local.kinds.machines import LEASES, NODE_LEASES, NODES
from gpu_runtime.local.node.agent.container_spec import GPU
from gpu_runtime.local.node.gpus import Gpu

LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0
MOST_PODS = 500
SIMULATED_MEMORY_PER_GPU = 64 * 1024**3
VERSION = "v1.35.4-gpu-runtime"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the Node object says about this machine."""

    name: str
    address: str
    cpus: int
    memoryBytes: int
    diskBytes: int
    gpus: list[Gpu]
    simulated: bool

    @property
    def capacity(self) -> dict[str, str]:
        """The capacity in Kubernetes quantities. Simulated GPUs add simulated memory, so that units fit a laptop."""
        memory = self.memoryBytes
        if self.simulated:
            memory = max(memory, SIMULATED_MEMORY_PER_GPU * len(self.gpus))
        found = {
            "cpu": str(self.cpus),
            "memory": f"{memory // 1024}Ki",
            "ephemeral-storage": f"{self.diskBytes // 1024}Ki",
            "pods": str(MOST_PODS),
        }
        if self.gpus:
            found[GPU] = str(len(self.gpus))
        return found


def describe_machine(name: str, address: str, data_dir: Path, gpus: list[Gpu], *, simulated: bool) -> Machine:
    return Machine(
        name=name,
        address=address,
        cpus=os.cpu_count() or 1,
        memoryBytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        diskBytes=shutil.disk_usage(data_dir).total,
        gpus=gpus,
        simulated=simulated,
    )


def node_metadata(machine: Machine) -> dict[str, Any]:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
    }
    annotations = {}
    if machine.gpus:
        product = machine.gpus[0]
        labels["nvidia.com/gpu.count"] = str(len(machine.gpus))
        labels["nvidia.com/gpu.product"] = product.name.replace(" ", "-")
        labels["nvidia.com/gpu.memory"] = str(product.memoryBytes // 1024**2)
    if machine.simulated and machine.gpus:
        annotations["gpu-runtime.local/simulated"] = (
            f"{len(machine.gpus)} GPUs and {Quantity.parse(machine.capacity['memory'])} of memory are simulated;"
            f" this machine has {machine.memoryBytes // 1024**2}Mi"
        )
    return {"name": machine.name, "labels": labels, "annotations": annotations}


def node_status(machine: Machine, now: datetime, since: datetime) -> dict[str, Any]:
    """The whole status, as a kubelet writes it."""
    stamp, began = _stamp(now), _stamp(since)
    healthy = {
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    }
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "message": message}
        for kind, (reason, message) in healthy.items()
    ]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": began}
    return {
        "capacity": machine.capacity,
        "allocatable": machine.capacity,
        "conditions": [{**condition, **times} for condition in (*conditions, ready)],
        "addresses": [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": machine.name},
        ],
        "nodeInfo": {
            "architecture": node_metadata(machine)["labels"]["kubernetes.io/arch"],
            "bootID": _read("/proc/sys/kernel/random/boot_id"),
            "containerRuntimeVersion": "gpu-runtime://0.1.0",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": VERSION,
            "machineID": _read("/etc/machine-id"),
            "operatingSystem": "linux",
            "osImage": _os_name(),
            "systemUUID": _read("/etc/machine-id"),
        },
    }


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


class NodeKeeper:
    """Registers the node and renews its Lease for ever."""

    def __init__(self, client: Client, machine: Machine, clock: Clock, *, schedulable: bool = True) -> None:
        self._client, self._machine, self._clock = client, machine, clock
        self._spec = {} if schedulable else {"unschedulable": True}
        self._since = clock.now()
        self._log = structlog.get_logger("node").bind(node=machine.name)

    async def register(self) -> None:
        """Writes this machine's Node object and lease. Raises when the server cannot be reached."""
        metadata = node_metadata(self._machine)
        key = Key("", self._machine.name)
        try:
            await self._client.create(NODES, {"metadata": metadata, "spec": self._spec})
        except AlreadyExists:
            await self._client.patch(NODES, key, {"metadata": metadata})
        status = node_status(self._machine, self._clock.now(), self._since)
        await self._client.patch(NODES, key, {"status": status}, subresource="status")
        await self._renew()

    async def run(self) -> None:
        """Sends heartbeats until cancelled. Retries when the server cannot be reached."""
        registered_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                if self._clock.monotonic() - registered_at > STATUS_SECONDS:
                    await self.register()
                    registered_at = self._clock.monotonic()
                await self._renew()
            except NotFound:
                await self._register_again()
            except KubeError as error:
                self._log.warning("heartbeat failed; retrying", problem=str(error))

    async def _register_again(self) -> None:
        try:
            await self.register()
        except KubeError as error:
            self._log.warning("cannot register; retrying", problem=str(error))

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._machine.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        key = Key(NODE_LEASES, self._machine.name)
        try:
            await self._client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            metadata = {"name": key.name, "namespace": key.namespace}
            try:
                await self._client.create(LEASES, {"metadata": metadata, "spec": spec})
            except AlreadyExists:
                return
