"""A node without a machine for the embedded cluster: its pods run as soon as they are placed, and end when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from equipment.fake_nodes import fake_node
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Manager, Query, load_config
from gpu_runtime.kube.controller import Result, primary
from gpu_runtime.kube.errors import AlreadyExists, Conflict, NotFound
from gpu_runtime.local.controllers.assembly import Workloads
from gpu_runtime.local.kinds.pods import PODS

NAME = "fake-0"
CAPACITY = {"cpu": "4096", "memory": "64Ti", "pods": "2000", "nvidia.com/gpu": "1024"}
RENEW_SECONDS = 5.0
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"


@asynccontextmanager
async def workloads(kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    """Deployments, ReplicaSets, garbage collection and the scheduler of the embedded cluster, and one such node."""
    stop = asyncio.Event()
    async with Client(load_config(kubeconfig), user_agent="local-controllers") as client, asyncio.TaskGroup() as group:
        await _join(client)
        renewing = group.create_task(_renew(client))
        node = Manager(client)
        pods = node.cache(Query(PODS, fields=f"spec.nodeName={NAME}"))

        async def run_pod(key: Key) -> Result:
            pod = pods.get(key)
            if pod is not None:
                with suppress(NotFound, Conflict):
                    await _run(client, pod)
            return Result()

        node.controller("node", run_pod, [primary(pods)])
        group.create_task(node.run(stop))
        group.create_task(Workloads(client, folder).run(stop))
        try:
            await asyncio.wait_for(node.leading.wait(), 60)
            yield
        finally:
            stop.set()
            renewing.cancel()


async def _run(client: Client, pod: Any) -> None:
    path = PODS.path(pod.metadata.namespace, pod.metadata.name)
    if pod.metadata.deletionTimestamp is not None:
        await client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace_seconds=0)
    elif pod.status.phase in ("", "Pending"):
        conditions = [{"type": each, "status": "True"} for each in ("PodScheduled", "Initialized", "Ready")]
        status = {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1", "startTime": _now()}
        await client.request(
            "PATCH",
            f"{path}/status",
            body={"metadata": {"uid": pod.metadata.uid}, "status": status},
            content_type="application/merge-patch+json",
            subject=f"run {pod.metadata.key}",
        )


async def _join(client: Client) -> None:
    node = fake_node(NAME)
    ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": _now()}]
    status = {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": ready}
    with suppress(AlreadyExists):
        await client.request("POST", "/api/v1/nodes", body={**node, "status": status}, subject="join")
    merge = "application/merge-patch+json"
    path = f"/api/v1/nodes/{NAME}/status"
    await client.request("PATCH", path, body={"status": status}, content_type=merge, subject="say what there is")
    with suppress(AlreadyExists):
        namespace = {"metadata": {"name": "kube-node-lease"}}
        await client.request("POST", "/api/v1/namespaces", body=namespace, subject="make room for the lease")
    with suppress(AlreadyExists):
        lease = {"metadata": {"name": NAME}, "spec": _term()}
        await client.request("POST", LEASE.rpartition("/")[0], body=lease, subject="take the lease")


async def _renew(client: Client) -> None:
    while True:
        merge = "application/merge-patch+json"
        await client.request("PATCH", LEASE, body={"spec": _term()}, content_type=merge, subject="renew the lease")
        await asyncio.sleep(RENEW_SECONDS)


def _term() -> dict[str, Any]:
    return {"holderIdentity": NAME, "leaseDurationSeconds": 40, "renewTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
