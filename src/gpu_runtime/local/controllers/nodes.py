"""Node life cycle: marks silent nodes as not ready and deletes the pods of nodes that are gone."""

from __future__ import annotations

import asyncio
from datetime import datetime

from gpu_runtime.api.meta.object import Key, wire
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Patch
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.store import Store
from gpu_runtime.local.kinds.machines import NODE_LEASES, NODES, Lease, Node
from gpu_runtime.local.kinds.pods import PODS, Pod

SILENT_SECONDS = 40.0
GONE_SECONDS = 20.0
CHECK_SECONDS = 5.0
NODE = "node"
NOT_READY = "node.kubernetes.io/not-ready"
"""The taint that the API server gives to a new node. Pods are placed by the node's conditions and by no taint."""


class Heartbeats:
    """Knows how long each node has been silent, by our own clock.

    A lease is compared with its earlier content, never with the time of day: a machine that slept, or a cluster that
    was stopped over night, has not lost its node.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_change: dict[str, tuple[datetime | None, float]] = {}

    def silent_for(self, node: str, lease: Lease | None) -> float:
        """Seconds since the node's lease was last seen to change."""
        renewed, now = lease.spec.renewTime if lease is not None else None, self._clock.monotonic()
        last = self._last_change.get(node)
        if last is None or last[0] != renewed:
            last = self._last_change[node] = (renewed, now)
        return now - last[1]

    def forget(self, node: str) -> None:
        self._last_change.pop(node, None)


class NodeReconciler:
    """Checks one node by its lease. Deletes its pods when the node no longer exists."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        nodes: Store[Node],
        leases: Store[Lease],
        pods: Store[Pod],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._nodes = nodes
        self._leases = leases
        self._pods = pods
        self._missing: dict[str, float] = {}
        self._heartbeats = Heartbeats(clock)
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        node = self._nodes.get(key)
        if node is None:
            return await self._gone(key)
        self._missing.pop(key.name, None)
        silent = self._heartbeats.silent_for(key.name, self._leases.get(Key(NODE_LEASES, key.name)))
        if silent > SILENT_SECONDS and node.ready == "True":
            await self._declare_unknown(node, self._clock.now())
        if node.ready == "True" and any(one.key == NOT_READY for one in node.spec.taints):
            left = [one for one in node.spec.taints if one.key != NOT_READY]
            patch = {"metadata": identity(node.metadata), "spec": {"taints": wire(left) or None}}
            await self._client.patch(NODES, key, patch)
        return Result(CHECK_SECONDS)

    async def _declare_unknown(self, node: Node, now: datetime) -> None:
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": now.replace(microsecond=0),
        }
        patch = {"metadata": identity(node.metadata), "status": {"conditions": [condition]}}
        await self._client.patch(NODES, node.metadata.key, patch, kind=Patch.STRATEGIC, subresource="status")
        message = f"Node {node.metadata.name} status is now: NodeNotReady"
        self._recorder.event(NODES, node, "NodeNotReady", message)
        # Nothing runs its pods now: ReplicaSets and Services must not count them as ready.
        await asyncio.gather(*(self._not_ready(pod, now) for pod in self._pods.find(NODE, node.metadata.name)))

    async def _not_ready(self, pod: Pod, now: datetime) -> None:
        if not pod.ready:
            return
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": now.replace(microsecond=0)}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, pod.metadata.key, patch, kind=Patch.STRATEGIC, subresource="status")
        except NotFound:
            return
        self._recorder.event(PODS, pod, "NodeNotReady", "Node is not ready", type="Warning")

    async def _gone(self, key: Key) -> Result:
        """Deletes the pods of a node that no longer exists: no agent is left to end them in order."""
        self._heartbeats.forget(key.name)
        pods = self._pods.find(NODE, key.name)
        if not pods:
            self._missing.pop(key.name, None)
            return Result()
        since = self._missing.setdefault(key.name, self._clock.monotonic())
        left = since + GONE_SECONDS - self._clock.monotonic()
        if left > 0:
            return Result(left)
        try:
            await self._client.get(NODES, key)
        except NotFound:
            await asyncio.gather(*(self._collect(pod) for pod in pods))
        return Result(CHECK_SECONDS)

    async def _collect(self, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": self._clock.now().replace(microsecond=0),
        }
        status = {"conditions": [condition], **({} if pod.finished else {"phase": "Failed"})}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(PODS, pod.metadata.key, patch, kind=Patch.STRATEGIC, subresource="status")
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid, grace_seconds=0)
        except NotFound:
            return


def node_of_lease(lease: Lease) -> list[Key]:
    return [Key("", lease.metadata.name)]


def node_of_pod(pod: Pod) -> list[Key]:
    return [Key("", pod.spec.nodeName)] if pod.spec.nodeName else []
