"""Counts what an object uses of a quota, for admission, the quota controller and the scheduler. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_runtime.local.quantities import NANO, nanos

Object = Mapping[str, Any]
Usage = dict[str, int]
"""Quota resource -> amount in billionths."""

_COUNT = "count/"
_PLAIN = ("services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas", "replicationcontrollers")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def counted_kind(name: str) -> str | None:
    """The resource whose objects a quota's `name` counts; None when it measures something in them, such as CPU."""
    if name.startswith(_COUNT):
        return name.removeprefix(_COUNT)
    return name if name in _PLAIN else None


def usage_of(resource: str, obj: Object) -> Usage:
    """The usage of one object of `resource` (`deployments.apps`), by quota resource."""
    found: Usage = {f"{_COUNT}{resource}": NANO}
    if resource in _PLAIN:
        found[resource] = NANO
    match resource:
        case "pods":
            if obj.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                found |= _pod(obj["spec"])
        case "persistentvolumeclaims":
            found |= _claim(obj["spec"])
    return found


def _pod(spec: Object) -> Usage:
    found: Usage = {"pods": NANO}
    for part in ("requests", "limits"):
        totals = most_at_once(_containers(spec, part))
        for name, amount in totals.items():
            found[f"{part}.{name}"] = amount
            if part == "requests" and name in _COMPUTE:
                found[name] = amount
    return found


def _containers(spec: Object, part: str) -> Iterable[tuple[Usage, bool]]:
    for container in spec.get("initContainers") or []:
        yield _amounts(container, part), container.get("restartPolicy") != "Always"
    for container in spec.get("containers") or []:
        yield _amounts(container, part), False


def most_at_once(containers: Iterable[tuple[Usage, bool]]) -> Usage:
    """The most that containers need at any time. They are in start order, each with whether it ends before the next.

    Containers and sidecars add up; init containers run one by one, each beside the sidecars before it.
    """
    running, peak = Usage(), Usage()
    for amounts, ends in containers:
        together = {name: running.get(name, 0) + amounts.get(name, 0) for name in {**running, **amounts}}
        peak = {name: max(peak.get(name, 0), together.get(name, 0)) for name in {**peak, **together}}
        running = running if ends else together
    return peak


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


def in_scope(scopes: Iterable[str], resource: str, obj: Object) -> bool:
    """Whether a quota of these scopes counts this object."""
    scopes = list(scopes)
    if not scopes:
        return True
    if resource != "pods":
        return False
    spec = obj["spec"]
    best_effort = _best_effort(spec)
    ends = spec.get("activeDeadlineSeconds") is not None
    facts = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": ends,
        "NotTerminating": not ends,
        "PriorityClass": bool(spec.get("priorityClassName")),
    }
    return all(facts.get(scope, True) for scope in scopes)


def _best_effort(spec: Object) -> bool:
    every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    stated = {name for one in every for part in ("requests", "limits") for name in _amounts(one, part)}
    return not stated & {"cpu", "memory"}
