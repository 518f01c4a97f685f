"""Node life cycle: a node that went silent is not ready, and pods that nobody runs any more go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from gpu_runtime.api.meta.object import Key, wire
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Patch
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.machines import NODE_LEASES, NODES, Lease, Node, Taint
from gpu_runtime.local.controllers.pods import PODS, Pod
from gpu_runtime.local.controllers.scheduler.fitting import UNSCHEDULABLE_TAINT, tolerates

SILENT_SECONDS = 40.0
GONE_SECONDS = 20.0
LOOK_AGAIN_SECONDS = 5.0
NODE = "node"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE_TAINT}


class Heartbeats:
    """Knows how long each node has been silent, by our own clock.

    What a lease says is compared with what it said before, never with the time of day: a machine that slept, or a
    cluster that was stopped over night, has not lost its node.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[datetime | None, float]] = {}

    def silent_for(self, node: str, lease: Lease | None) -> float:
        """Seconds since the node's lease was last seen to change."""
        renewed, now = lease.spec.renewTime if lease is not None else None, self._clock.monotonic()
        last = self._heard.get(node)
        if last is None or last[0] != renewed:
            last = self._heard[node] = (renewed, now)
        return now - last[1]

    def forget(self, node: str) -> None:
        self._heard.pop(node, None)


def taints(node: Node, ready: str, now: datetime) -> list[Taint]:
    """The taints that its state asks for, beside those that others set."""
    wanted: list[tuple[str, str]] = []
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE_TAINT, "NoSchedule"))
    had = {(one.key, one.effect): one for one in node.spec.taints}
    foreign = [one for one in node.spec.taints if one.key not in _OURS]
    added = now.replace(microsecond=0)
    return foreign + [had.get(each) or Taint(key=each[0], effect=each[1], timeAdded=added) for each in wanted]


def leaves_in(pod: Pod, on_node: Sequence[Taint], now: datetime) -> float | None:
    """Seconds until the pod must leave a node with these taints; None when it may stay."""
    deadlines = []
    for taint in on_node:
        if taint.effect != "NoExecute":
            continue
        tolerated = [one for one in pod.spec.tolerations if tolerates(one, taint)]
        if not tolerated:
            return 0.0
        limits = [one.tolerationSeconds for one in tolerated if one.tolerationSeconds is not None]
        if limits and len(limits) == len(tolerated):
            since = taint.timeAdded or now
            deadlines.append((since + timedelta(seconds=min(limits)) - now).total_seconds())
    return max(0.0, min(deadlines)) if deadlines else None


class NodeReconciler:
    """Judges one node by its lease, and moves its pods on when it is gone for good."""

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
        now = self._clock.now()
        silent = self._heartbeats.silent_for(key.name, self._leases.get(Key(NODE_LEASES, key.name)))
        if silent > SILENT_SECONDS and node.ready == "True":
            node = await self._declare_unknown(node, now)
        wanted = taints(node, node.ready, now)
        if {(one.key, one.effect) for one in wanted} != {(one.key, one.effect) for one in node.spec.taints}:
            patch = {"metadata": identity(node.metadata), "spec": {"taints": wire(wanted) or None}}
            node = await self._client.patch(NODES, key, patch)
        waits = [LOOK_AGAIN_SECONDS]
        for pod in self._pods.find(NODE, key.name):
            left = leaves_in(pod, wanted, now)
            if left is not None and pod.metadata.deletionTimestamp is None:
                if left <= 0:
                    await self._evict(pod)
                else:
                    waits.append(left)
        return Result(min(waits))

    async def _declare_unknown(self, node: Node, now: datetime) -> Node:
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": now.replace(microsecond=0),
        }
        patch = {"metadata": identity(node.metadata), "status": {"conditions": [condition]}}
        changed = await self._client.patch(NODES, node.metadata.key, patch, kind=Patch.STRATEGIC, subresource="status")
        said = f"Node {node.metadata.name} status is now: NodeNotReady"
        self._recorder.event(NODES, node, "NodeNotReady", said)
        # Nobody looks after its pods now: whoever counts them must not rely on them.
        await asyncio.gather(*(self._not_ready(pod, now) for pod in self._pods.find(NODE, node.metadata.name)))
        return changed

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

    async def _evict(self, pod: Pod) -> None:
        said = f"Marking for deletion Pod {pod.metadata.key}"
        self._recorder.event(PODS, pod, "TaintManagerEviction", said)
        try:
            await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
        except NotFound:
            return

    async def _gone(self, key: Key) -> Result:
        """Pods of a node that no longer exists have nobody who could end them in order."""
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
        return Result(LOOK_AGAIN_SECONDS)

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
