"""A pod runtime on a data directory of its own, and proof that it leaves nothing behind on the machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from equipment.servers import RUNNING_SERVER
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.builtin import NAMESPACES
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.errors import AlreadyExists, NotFound
from gpu_runtime.local.apiserver.server import ApiServer, Settings
from gpu_runtime.local.node.agent.logs import PodLogs
from gpu_runtime.local.node.capabilities import Capabilities, decide, probe
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shim_documents import Limits
from gpu_runtime.local.removal import remove_tree
from local.node.cluster import NODES, Cluster, resource
from local.node.machine import remains

SERVICE_ACCOUNTS = resource("ServiceAccount", "serviceaccounts")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Outside /tmp, which pods do not see anyway: what hides this one is the mask."""
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-test-", dir="/var/tmp")) / "data"
    path.mkdir()
    yield path
    left = remains(path)
    assert left == {"processes": [], "mounts": [], "links": [], "cgroups": []}
    remove_tree(path.parent)


@pytest.fixture(scope="session")
def capabilities() -> Capabilities:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        return decide(probe(Path(folder)))


@pytest.fixture
async def runtime(data_dir: Path, capabilities: Capabilities) -> AsyncIterator[PodRuntime]:
    limits = Limits(logBytes=64 * 1024, logFiles=3, openFiles=256, processes=64)
    async with PodRuntime(data_dir, capabilities, gpus=simulated(4), limits=limits) as runtime:
        yield runtime
        await runtime.shutdown()


@pytest.fixture
async def cluster_without_runtime(data_dir: Path) -> AsyncIterator[Cluster]:
    """The embedded API server (or the running one that the environment names), for a test with agents of its own."""
    unique = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    namespace = node = f"node-{unique}"
    async with AsyncExitStack() as stack:
        running = os.environ.get(RUNNING_SERVER)
        if running:
            kubeconfig = Path(running)
        else:
            server = await stack.enter_async_context(ApiServer(Settings(data_dir / "apiserver", PodLogs(data_dir))))
            kubeconfig = server.kubeconfig
        client = await stack.enter_async_context(Client(load_config(kubeconfig)))
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        with contextlib.suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})
        yield Cluster(client, namespace, node, kubeconfig)
        await client.delete(NAMESPACES, Key("", namespace))
        with contextlib.suppress(NotFound):
            await client.delete(NODES, Key("", node))


@pytest.fixture
async def cluster(
    cluster_without_runtime: Cluster, capabilities: Capabilities, data_dir: Path
) -> AsyncIterator[Cluster]:
    """An API server and a pod runtime, without an agent yet."""
    async with PodRuntime(data_dir, capabilities, gpus=simulated(4)) as runtime:
        cluster_without_runtime.runtime = runtime
        yield cluster_without_runtime
        await runtime.shutdown()
