"""Objects in a few words, for tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gpu_runtime.local.kinds.machines import Node
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.workloads import Deployment, Job, ReplicaSet

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def a_pod(name: str = "p", *, phase: str = "Running", ready: bool | None = None, **given: Any) -> Pod:
    conditions = given.pop("conditions", [])
    if ready is not None:
        since = given.pop("ready_since", NOW)
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}, *conditions]
    metadata = {"name": name, "namespace": "ns", "uid": name, **given.pop("metadata", {})}
    status = {"phase": phase, "conditions": conditions, **given.pop("status", {})}
    return msgspec.convert({"metadata": metadata, "spec": given, "status": status}, Pod)


def asking(**resources: str) -> dict[str, Any]:
    """The `containers` of a pod that asks for these resources, `_` in a name standing for its punctuation."""
    names = {"gpu": "nvidia.com/gpu"}
    requests = {names.get(name, name): amount for name, amount in resources.items()}
    return {"name": "main", "resources": {"requests": requests}}


def a_node(name: str = "n", *, labels: dict[str, str] | None = None, **given: Any) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", **given.pop("allocatable", {})}
    conditions = [{"type": "Ready", "status": given.pop("ready", "True")}]
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels or {}, "creationTimestamp": NOW},
            "spec": given,
            "status": {"allocatable": allocatable, "conditions": conditions},
        },
        Node,
    )


def a_deployment(replicas: int = 1, **given: Any) -> Deployment:
    status = given.pop("status", {})
    metadata = {"name": "web", "namespace": "ns", "uid": "u", "generation": 1, **given.pop("metadata", {})}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    spec = {"replicas": replicas, "template": template, "strategy": strategy, **given}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Deployment)


def a_set(name: str = "web-1", replicas: int = 1, **given: Any) -> ReplicaSet:
    metadata = {"name": name, "namespace": "ns", "uid": name, **given.pop("metadata", {})}
    status = given.pop("status", {})
    return msgspec.convert(
        {"metadata": metadata, "spec": {"replicas": replicas, **given}, "status": status}, ReplicaSet
    )


def a_job(**given: Any) -> Job:
    status = given.pop("status", {})
    metadata = {"name": "job", "namespace": "ns", "uid": "j", **given.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, "spec": given, "status": status}, Job)
