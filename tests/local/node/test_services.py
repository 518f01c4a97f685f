"""Cluster addresses of Services on a machine with more than one cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from equipment.privileges import needs_root
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.store import Store
from gpu_runtime.local.kinds.services import Endpoint, EndpointPort, EndpointSlice, Service, ServicePort, ServiceSpec
from gpu_runtime.local.node.agent.services import ServiceKeeper
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.removal import remove_tree
from local.node.machine import remains
from local.node.pods import a_container, a_pod

ADDRESS = "10.96.77.7"
SERVE = "mkdir -p /site && cd /site && echo $NAME > name && exec python -m http.server 8080"
FETCH = "import urllib.request as u; print(u.urlopen('http://web/name', timeout=5).read().decode().strip())"


@pytest.fixture
def other_data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-test-", dir="/var/tmp")) / "data"
    path.mkdir()
    yield path
    assert remains(path) == {"processes": [], "mounts": [], "links": [], "cgroups": []}
    remove_tree(path.parent)


async def serve_web(runtime: PodRuntime, name: str, stack: AsyncExitStack) -> None:
    """A pod behind the Service `web`, whose address is the same in every cluster."""
    uid = await a_pod(runtime)
    await runtime.start_container(uid, a_container("sh", "-c", SERVE, env={"NAME": name}))
    pod = runtime.get(uid)
    assert pod
    services, slices = Store[Service](), Store[EndpointSlice]()
    keeper = await stack.enter_async_context(ServiceKeeper(runtime, services, slices))
    spec = ServiceSpec(clusterIP=ADDRESS, ports=[ServicePort(port=80)])
    services.upsert(
        Service(metadata=ObjectMeta(name="web", namespace="default", uid="s", resourceVersion="1"), spec=spec)
    )
    labels = {"kubernetes.io/service-name": "web"}
    meta = ObjectMeta(name="web-1", namespace="default", uid="e", resourceVersion="1", labels=labels)
    endpoints = [Endpoint(addresses=[pod.address])]
    slices.upsert(EndpointSlice(metadata=meta, endpoints=endpoints, ports=[EndpointPort(port=8080)]))
    await keeper.apply()


@needs_root("pods have no address of their own and cannot call out")
async def test_pods_reach_the_services_of_their_own_cluster_only(
    data_dir: Path, other_data_dir: Path, capabilities: Capabilities
) -> None:
    async with (
        PodRuntime(data_dir, capabilities) as first,
        PodRuntime(other_data_dir, capabilities) as second,
        AsyncExitStack() as stack,
    ):
        assert first.network.subnet != second.network.subnet
        for name, runtime in (("first", first), ("second", second)):
            await serve_web(runtime, name, stack)
        for name, runtime in (("first", first), ("second", second)):
            client = await a_pod(runtime)
            await runtime.start_container(client, a_container("sleep", "3600"))

            async def answered(runtime: PodRuntime = runtime, client: str = client) -> str:
                code, output = await runtime.execute(client, "main", 0, ["python", "-c", FETCH], 60)
                assert code == 0, output
                return output.strip()

            assert await eventually(answered) == name
        for runtime in (first, second):
            await runtime.shutdown()
