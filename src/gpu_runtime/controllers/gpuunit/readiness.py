"""Whether a unit is Ready, and its status, from its observed children. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitPhase, GPUUnitStatus
from gpu_runtime.api.v1alpha1.reasons import POD_STARTUP_FAILED, UNIT_PROGRESSING, UNIT_READY
from gpu_runtime.controllers.child_kinds.network import Service
from gpu_runtime.controllers.readiness import Readiness, State
from gpu_runtime.controllers.workload import Workload

PHASES: dict[State, GPUUnitPhase] = {
    "ready": "Ready",
    "progressing": "Progressing",
    "failed": "Failed",
    "empty": "Progressing",
}

COMPLETE = frozenset({UNIT_READY, UNIT_PROGRESSING, POD_STARTUP_FAILED})
"""Reasons of the Ready condition that are only given when every child is in place."""


@dataclass(frozen=True)
class Observed:
    """The unit with its children, and what blocked the reconcile, if anything did."""

    unit: GPUUnit
    workload: Workload | None = None
    service: Service | None = None
    access_url: str = ""
    listed: bool = False
    """Of seeded stock: whether its Operation is known to list it."""
    blocked: Readiness | None = None


Check = Callable[[Observed], Readiness | None]


def blocked(seen: Observed) -> Readiness | None:
    return seen.blocked


def pod_fails(seen: Observed) -> Readiness | None:
    failure = seen.workload.failure if seen.workload else None
    return Readiness("failed", POD_STARTUP_FAILED, failure) if failure else None


def pod_missing(seen: Observed) -> Readiness | None:
    if seen.workload is not None and seen.workload.complete:
        return None
    return Readiness("progressing", UNIT_PROGRESSING, seen.workload.progress if seen.workload else "nothing runs yet")


CHECKS: tuple[Check, ...] = (blocked, pod_fails, pod_missing)


def readiness(seen: Observed) -> Readiness:
    """The outcome of the first check that has one; Ready if none has."""
    for check in CHECKS:
        if (outcome := check(seen)) is not None:
            return outcome
    return Readiness("ready", UNIT_READY, "the unit's pod is running and ready")


def status(seen: Observed, outcome: Readiness) -> GPUUnitStatus:
    """The whole status except its conditions and time."""
    workload, before = seen.workload, seen.unit.status
    # Stock that is already Ready counts as listed (`seen_listed`), so it gets no write that only adds `listed`.
    listed = before.listed or (seen.listed and before.phase != PHASES[outcome.state])
    return structs.replace(
        before,
        phase=PHASES[outcome.state],
        readyReplicas=workload.deployment.status.availableReplicas if workload else 0,
        serviceName=seen.service.metadata.name if seen.service else "",
        accessURL=seen.access_url if seen.service else "",
        nodeName=workload.node if workload else "",
        listed=listed,
        observedGeneration=seen.unit.metadata.generation,
    )
