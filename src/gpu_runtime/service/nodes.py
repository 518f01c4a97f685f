"""Nodes, as far as stock depends on them."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store

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
    """What is cached of a node; never written back."""

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


def usable(nodes: Store[Node], name: str) -> bool:
    """Whether a pod can start on the node now."""
    node = nodes.get(Key("", name))
    return node is not None and node.ready and node.schedulable


def gpus(amounts: dict[str, str]) -> int:
    text = amounts.get(GPU_RESOURCE, "0")
    return int(text) if text.isdecimal() else 0
