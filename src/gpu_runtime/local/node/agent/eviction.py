"""Ends pods that fill the disk: one past its own limits, or the largest when the machine runs out of room."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.node.agent.status import Failure

LOOK_SECONDS = 10.0
LEAST_FREE_SHARE = 0.05
STORAGE = "ephemeral-storage"


@dataclass(frozen=True)
class Usage:
    """Bytes on disk that a pod has written outside persistent volumes."""

    containers: Mapping[str, int]
    volumes: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.containers.values()) + sum(self.volumes.values())


def over_limit(pod: Pod, usage: Usage) -> Failure | None:
    """The failure of a pod that exceeds one of its own limits, with a kubelet's message. Pure."""
    for volume in pod.spec.volumes:
        if volume.emptyDir and volume.emptyDir.sizeLimit and volume.emptyDir.medium != "Memory":
            limit = volume.emptyDir.sizeLimit
            if usage.volumes.get(volume.name, 0) > Quantity.parse(limit).value:
                return Failure("Evicted", f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". ')
    limits = {
        container.name: container.resources.limits[STORAGE]
        for container in pod.spec.containers
        if STORAGE in container.resources.limits
    }
    for name, limit in limits.items():
        if usage.containers.get(name, 0) > Quantity.parse(limit).value:
            return Failure("Evicted", f'Container {name} exceeded its local ephemeral storage limit "{limit}". ')
    total = sum((Quantity.parse(limit) for limit in limits.values()), Quantity.of(0))
    if limits and len(limits) == len(pod.spec.containers) and usage.total > total.value:
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
        return Failure("Evicted", message)
    return None


def largest_when_full(usages: Mapping[str, Usage], free: int, size: int) -> tuple[str, Failure] | None:
    """The pod to end when the disk is nearly full: the one that has written most, if it has written at all. Pure."""
    least = int(size * LEAST_FREE_SHARE)
    if free >= least or not usages:
        return None
    uid, usage = max(usages.items(), key=lambda each: each[1].total)
    if usage.total < least - free:
        return None  # something else fills the disk: ending pods would not help
    message = (
        f"The node was low on resource: {STORAGE}. Threshold quantity: {least // 1024}Ki, available: {free // 1024}Ki. "
    )
    return uid, Failure("Evicted", message)


def measure(folder: Path) -> Usage:
    """What the pod of this directory has written."""
    containers = {
        path.name: sum(_size(layer) for layer in path.glob("*/layer")) for path in (folder / "containers").glob("*")
    }
    return Usage(containers, {path.name: _size(path) for path in (folder / "volumes").glob("*")})


def _size(folder: Path) -> int:
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(here) / name).lstat().st_blocks * 512
            except OSError:
                continue  # it was removed meanwhile
    return total


@dataclass(frozen=True)
class Evictor:
    """Measures every running pod periodically."""

    data_dir: Path
    running: Callable[[], Iterable[tuple[Pod, Path]]]
    evict: Callable[[Pod, Failure], None]
    look_seconds: float = LOOK_SECONDS

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.look_seconds)
            await self.check()

    async def check(self) -> None:
        """Measures all pods once and evicts those that exceed a limit."""
        usages: dict[str, Usage] = {}
        pods: dict[str, Pod] = {}
        for pod, folder in list(self.running()):
            usage = await asyncio.to_thread(measure, folder)
            failure = over_limit(pod, usage)
            if failure:
                self.evict(pod, failure)
            else:
                usages[pod.metadata.uid], pods[pod.metadata.uid] = usage, pod
        disk = shutil.disk_usage(self.data_dir)
        if chosen := largest_when_full(usages, disk.free, disk.total):
            self.evict(pods[chosen[0]], chosen[1])
