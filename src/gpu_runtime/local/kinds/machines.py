"""Nodes and their leases as the scheduler and the node controller read them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.wire import Condition


class Taint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    timeAdded: datetime | None = None


class NodeSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class Node(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> str:
        """The status of its Ready condition."""
        return next((one.status for one in self.status.conditions if one.type == "Ready"), "Unknown")


class LeaseSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    renewTime: datetime | None = None


class Lease(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


NODE_LEASES = "kube-node-lease"
NODES = Resource("", "v1", "Node", "nodes", Node, namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)
