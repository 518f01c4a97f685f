"""Deployments on the embedded cluster beside a real kubelet and containerd, in one run: start, end, memory.

`GPU_RUNTIME_TEST_CLUSTER=KUBECONFIG` uses a complete real cluster that already runs; otherwise one is started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

import realkube
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.config import load_config
from gpu_runtime.local.kinds.pods import PODS
from gpu_runtime.local.kinds.workloads import DEPLOYMENTS
from realkube.site import INDEX_VARIABLE, Site

RUNNING = "GPU_RUNTIME_TEST_CLUSTER"
CLUSTER = "4"
ROUNDS = 12
MANY = 50
WAIT = 300.0
# The first process of a container ends when it is asked to, so that a delete measures the cluster.
SCRIPT = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, embedded(Path(folder)) as local, real() as cluster:
        uvloop.run(measure({"embedded": local, "kubelet": cluster}))


@contextmanager
def embedded(folder: Path) -> Iterator[Path]:
    data, log = folder / "data", folder / "log"
    command = [sys.executable, "-m", "gpu_runtime.cli", "local-cluster", "--data-dir", str(data)]
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while "\nready: " not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.01)
        print(f"embedded cluster ready after {time.perf_counter() - began:.2f} s")
        yield data / "kubeconfig"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def real() -> Iterator[Path]:
    if running := os.environ.get(RUNNING):
        yield Path(running)
        return
    os.environ[INDEX_VARIABLE] = CLUSTER
    environment = {**os.environ, "PYTHONPATH": str(Path(realkube.__file__).parents[1])}
    command = [sys.executable, "-m", "realkube"]
    try:
        subprocess.run([*command, "up"], env=environment, check=True)
        yield Site.from_environment().kubeconfig
    finally:
        subprocess.run([*command, "down"], env=environment, check=False)


async def measure(clusters: dict[str, Path]) -> None:
    clients = {name: Client(load_config(path)) for name, path in clusters.items()}
    for client in clients.values():
        await client.__aenter__()
    ones: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for turn in range(ROUNDS):  # in turns, so that both meet the same neighbours
        for name, client in clients.items():
            ones[name].append(await one_round(client, f"one-{turn}", 1))
    for name, times in ones.items():
        up, down = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
        print(f"{name:9} 1 pod:   created to Available p50 {up:6.0f} ms   deleted to gone p50 {down:6.0f} ms")
    for name, client in clients.items():
        before = available_memory()
        up = await start(client, "many", MANY)
        each = (before - available_memory()) / MANY
        down = await end(client, "many")
        print(
            f"{name:9} {MANY} pods: created to Available {up:6.2f} s   deleted to gone {down:6.2f} s"
            f"   {each / 2**20:5.1f} MiB a pod"
        )
    for client in clients.values():
        await client.__aexit__(None, None, None)


async def one_round(client: Client, name: str, replicas: int) -> tuple[float, float]:
    return await start(client, name, replicas), await end(client, name)


async def start(client: Client, name: str, replicas: int) -> float:
    """Seconds from the create to the moment that a watcher sees every replica available."""
    began = time.perf_counter()
    made = await client.create(DEPLOYMENTS, deployment(name, replicas))
    query = Query(DEPLOYMENTS, namespace="default", fields=f"metadata.name={name}")
    version = made.metadata.resourceVersion
    async with asyncio.timeout(WAIT):
        async for event in client.watch(query, resource_version=version, timeout=WAIT, silence=WAIT):
            if event.object is not None and event.object.status.availableReplicas == replicas:
                break
    return time.perf_counter() - began


async def end(client: Client, name: str) -> float:
    """Seconds from the delete to the moment that a watcher has seen the last pod go."""
    query = Query(PODS, namespace="default", labels=f"app={name}")
    listing = await client.list(query)
    left = {pod.metadata.key for pod in listing.items}
    began = time.perf_counter()
    await client.delete(DEPLOYMENTS, Key("default", name), propagation="Background")
    watch = client.watch(query, resource_version=listing.resource_version, timeout=WAIT, silence=WAIT)
    async with asyncio.timeout(WAIT):
        async for event in watch:
            if event.type == "DELETED":
                left.discard(event.key)
            if not left:
                break
    return time.perf_counter() - began


def deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", SCRIPT]}
    spec = {"containers": [container], "automountServiceAccountToken": False, "enableServiceLinks": False}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
