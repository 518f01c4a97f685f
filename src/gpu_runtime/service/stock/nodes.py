"""The nodes that stock runs on: which ones are usable."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store
from gpu_runtime.service.cluster import Cluster
from gpu_runtime.service.reading import Reader

GPU_RESOURCE = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"


class NodeCondition(Struct, frozen=True):
    type: str
    status: str


class NodeSpec(Struct, frozen=True, kw_only=True):
    unschedulable: bool = False


class NodeStatus(Struct, frozen=True, kw_only=True):
    conditions: list[NodeCondition] = []
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class Node(Struct, frozen=True, kw_only=True):
    """The cached part of a node; never written back."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def schedulable(self) -> bool:
        return not self.spec.unschedulable


NODES = Resource("", "v1", "Node", "nodes", Node, namespaced=False)


class Nodes:
    """Which nodes are usable for hand-overs. The cache may answer yes; callers confirm a no with the server."""

    def __init__(self, cluster: Cluster, store: Store[Node]) -> None:
        self._reader = Reader(cluster, NODES, store)

    @property
    def listed(self) -> bool:
        """Whether the cache has its first list. Before that, a node that is not cached may still exist."""
        return bool(self._reader.store.version)

    def usable(self, name: str) -> bool:
        """Whether a pod can start on the node, by the cache."""
        return _usable(self._reader.store.get(Key("", name)))

    async def usable_now(self, name: str) -> bool:
        """Whether a pod can start on the node, by the server."""
        return _usable(await self._reader.live(Key("", name)))


def _usable(node: Node | None) -> bool:
    return node is not None and node.ready and node.schedulable


def gpus(amounts: dict[str, str]) -> int:
    text = amounts.get(GPU_RESOURCE, "0")
    return int(text) if text.isdecimal() else 0
