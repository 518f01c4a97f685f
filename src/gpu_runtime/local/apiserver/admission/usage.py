"""What an object uses of a quota."""

from __future__ import annotations

from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.quantities import NANO, nanos
from gpu_runtime.local.apiserver.records import Object

Usage = dict[str, int]
"""Quota resource -> amount in billionths."""

_PLAIN = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def usage_of(kind: Kind, obj: Object) -> Usage:
    """Everything that one object counts towards."""
    found: Usage = {f"count/{kind.resource}": NANO}
    if kind.resource in _PLAIN and kind.resource != "pods":
        found[kind.resource] = NANO
    match kind.resource:
        case "pods":
            if obj.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                found |= _pod(obj["spec"])
        case "persistentvolumeclaims":
            found |= _claim(obj["spec"])
        case "services":
            found |= _service(obj["spec"])
    return found


def _pod(spec: Object) -> Usage:
    found: Usage = {"pods": NANO}
    for part in ("requests", "limits"):
        totals = _totals(spec, part)
        for name, amount in totals.items():
            found[f"{part}.{name}"] = amount
            if part == "requests" and name in _COMPUTE:
                found[name] = amount
    return found


def _totals(spec: Object, part: str) -> Usage:
    """Containers add up; init containers run one by one, so the largest of them counts, sidecars throughout."""
    running: Usage = {}
    starting: Usage = {}
    for container in spec.get("initContainers") or []:
        sidecar = container.get("restartPolicy") == "Always"
        for name, amount in _amounts(container, part).items():
            if sidecar:
                running[name] = running.get(name, 0) + amount
            else:
                starting[name] = max(starting.get(name, 0), running.get(name, 0) + amount)
    for container in spec.get("containers") or []:
        for name, amount in _amounts(container, part).items():
            running[name] = running.get(name, 0) + amount
    return {name: max(running.get(name, 0), starting.get(name, 0)) for name in {*running, *starting}}


def _amounts(container: Object, part: str) -> Usage:
    given = (container.get("resources") or {}).get(part) or {}
    return {name: nanos(amount) for name, amount in given.items()}


def missing_compute(spec: Object, wanted: list[str]) -> list[str]:
    """`requests.memory for: main` for every wanted resource that some container does not state."""
    found = []
    for resource in sorted(wanted):
        part, _, name = resource.rpartition(".") if resource not in _COMPUTE else ("requests", "", resource)
        if name not in _COMPUTE or part not in ("requests", "limits"):
            continue
        every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        bare = [one["name"] for one in every if name not in _amounts(one, part)]
        if bare:
            found.append(f"{resource} for: {','.join(bare)}")
    return found


def _claim(spec: Object) -> Usage:
    size = (spec.get("resources") or {}).get("requests", {}).get("storage", "0")
    found = {"requests.storage": nanos(size)}
    name = spec.get("storageClassName")
    if name:
        found[f"{name}.storageclass.storage.k8s.io/requests.storage"] = nanos(size)
        found[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = NANO
    return found


def _service(spec: Object) -> Usage:
    ports = len(spec.get("ports") or [])
    kind = spec.get("type")
    found: Usage = {}
    if kind == "LoadBalancer":
        found["services.loadbalancers"] = NANO
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        found["services.nodeports"] = ports * NANO
    return found


def in_scope(quota: Object, kind: Kind, obj: Object) -> bool:
    """Whether a quota's scopes let it count this object."""
    scopes = quota["spec"].get("scopes") or []
    if not scopes:
        return True
    if kind.resource != "pods":
        return False
    spec = obj["spec"]
    best_effort = obj.get("status", {}).get("qosClass") == "BestEffort"
    ends = spec.get("activeDeadlineSeconds") is not None
    facts = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": ends,
        "NotTerminating": not ends,
        "PriorityClass": bool(spec.get("priorityClassName")),
    }
    return all(facts.get(scope, True) for scope in scopes)
