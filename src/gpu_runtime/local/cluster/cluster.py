"""Starts the parts of the cluster in the order of their dependencies and stops them in reverse order."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from gpu_runtime.kube.process import raise_open_files_limit
from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.local.apiserver.server import ApiServer, Settings
from gpu_runtime.local.node.agent.logs import PodLogs
from gpu_runtime.local.node.shells import PodShells
from gpu_runtime.local.node.usage import PodUsage
from gpu_runtime.supervisor.child import Child
from gpu_runtime.supervisor.holder import hold

NODE_STOP_SECONDS = 45.0
CONTROLLERS_STOP_SECONDS = 10.0
LOCK = "local-cluster.lock"


@dataclass(frozen=True)
class ClusterOptions:
    data_dir: Path
    gpus: int | None = None
    port: int = 0
    missing_images: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Folders that pods see although they lie in somebody's home: PATH, or PATH:rw."""


@dataclass(frozen=True)
class RunningCluster:
    url: str
    kubeconfig: Path
    controllers: Child
    node: Child

    async def until_ready(self) -> None:
        await self.controllers.ready.wait()
        await self.node.ready.wait()


@asynccontextmanager
async def local_cluster(options: ClusterOptions, say: Callable[[str], None]) -> AsyncIterator[RunningCluster]:
    """A cluster whose API answers inside the block. `Held` when another one runs on the data directory.

    Leaving the block is a reboot of the node: pods end, objects stay, and the next start runs them again.
    """
    try:
        options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"data directory {options.data_dir} cannot be used: {error.strerror}") from error
    raise_open_files_limit()  # each command of kubectl exec holds five files of this process
    with hold(options.data_dir / LOCK):
        controllers, node = _children(options, say)
        async with asyncio.TaskGroup() as group:
            # They load their code while the server starts, and wait for `begin`.
            tasks = [group.create_task(child.run()) for child in (controllers, node)]
            try:
                settings = Settings(
                    options.data_dir,
                    PodLogs(options.data_dir),
                    options.port,
                    shells=PodShells(options.data_dir),
                    usage=PodUsage(options.data_dir),
                    lacks=lambda: _problems(controllers, node),
                    registry=_metrics(controllers, node),
                )
                async with ApiServer(settings) as server:
                    say(f"kubernetes API on {server.url}")
                    controllers.begin()
                    node.begin()
                    try:
                        yield RunningCluster(server.url, server.kubeconfig, controllers, node)
                    finally:
                        await node.stop(NODE_STOP_SECONDS)
                        await controllers.stop(CONTROLLERS_STOP_SECONDS)
            finally:
                for task in tasks:
                    task.cancel()


def _children(options: ClusterOptions, say: Callable[[str], None]) -> tuple[Child, Child]:
    shared = ("--kubeconfig", str(options.data_dir / "kubeconfig"), "--data-dir", str(options.data_dir))
    gpus = ("--gpus", str(options.gpus)) if options.gpus is not None else ()
    missing = [part for image in options.missing_images for part in ("--missing-image", image)]
    controllers = Child("controllers", "gpu_runtime.local.cluster.controllers_process", shared, say)
    shown = [part for folder in options.shown for part in ("--show", folder)]
    arguments = (*shared, "--name", node_name(socket.gethostname()), *gpus, *missing, *shown)
    return controllers, Child("node", "gpu_runtime.local.cluster.node_process", arguments, say)


def _problems(*children: Child) -> dict[str, str]:
    return {child.name: child.problem for child in children if child.problem}


def _metrics(*children: Child) -> CollectorRegistry:
    """The metrics of the child processes, read at each scrape."""
    registry = CollectorRegistry()
    ready = Gauge("local_cluster_ready", "1 while this part of the cluster works.", ["part"], registry=registry)
    starts = Gauge("local_cluster_starts", "How often this part was started.", ["part"], registry=registry)
    for child in children:
        ready.labels(child.name).set_function(child.ready.is_set)
        starts.labels(child.name).set_function(partial(getattr, child, "starts"))
    return registry


def node_name(hostname: str) -> str:
    """The machine's name as a valid name of a Node."""
    return re.sub(r"[^a-z0-9]+", "-", hostname.lower()).strip("-")[:63].strip("-") or "local"
