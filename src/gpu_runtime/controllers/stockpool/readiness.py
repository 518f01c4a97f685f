"""Whether a pool is Ready, and its status, from its observed children. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.v1alpha1.reasons import (
    DEPLOYMENT_PROGRESSING,
    DEPLOYMENT_READY,
    POD_STARTUP_FAILED,
    SCALED_TO_ZERO,
)
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolPhase, StockPoolStatus
from gpu_runtime.controllers.child_kinds.network import Service
from gpu_runtime.controllers.readiness import Readiness, State
from gpu_runtime.controllers.stockpool.resources.names import selector
from gpu_runtime.controllers.workload import Workload

PHASES: dict[State, StockPoolPhase] = {
    "ready": "Ready",
    "progressing": "Progressing",
    "failed": "Failed",
    "empty": "Empty",
}

COMPLETE = frozenset({DEPLOYMENT_READY, DEPLOYMENT_PROGRESSING, SCALED_TO_ZERO, POD_STARTUP_FAILED})
"""Reasons of the Ready condition that are only given when every child is in place."""


@dataclass(frozen=True)
class Observed:
    """The pool with its children, and what blocked the reconcile, if anything did."""

    pool: StockPool
    workload: Workload | None = None
    service: Service | None = None
    blocked: Readiness | None = None

    @property
    def available(self) -> int:
        return self.workload.deployment.status.availableReplicas if self.workload else 0


Check = Callable[[Observed], Readiness | None]


def blocked(seen: Observed) -> Readiness | None:
    return seen.blocked


def scaled_to_zero(seen: Observed) -> Readiness | None:
    if seen.pool.spec.replicas or (seen.workload and not seen.workload.complete):
        return None
    return Readiness("empty", SCALED_TO_ZERO, "no replicas are wanted")


def pods_fail(seen: Observed) -> Readiness | None:
    failure = seen.workload.failure if seen.workload else None
    return Readiness("failed", POD_STARTUP_FAILED, failure) if failure else None


def pods_missing(seen: Observed) -> Readiness | None:
    if seen.workload is not None and seen.workload.complete:
        return None
    message = f"{seen.available} of {seen.pool.spec.replicas} replicas are available"
    return Readiness("progressing", DEPLOYMENT_PROGRESSING, message)


CHECKS: tuple[Check, ...] = (blocked, scaled_to_zero, pods_fail, pods_missing)


def readiness(seen: Observed) -> Readiness:
    """The outcome of the first check that has one; Ready if none has."""
    for check in CHECKS:
        if (outcome := check(seen)) is not None:
            return outcome
    return Readiness("ready", DEPLOYMENT_READY, f"{seen.available} of {seen.pool.spec.replicas} replicas are available")


def status(seen: Observed, outcome: Readiness) -> StockPoolStatus:
    """The whole status except its conditions and time."""
    pool = seen.pool
    return structs.replace(
        pool.status,
        phase=PHASES[outcome.state],
        available=seen.available,
        allocated=max(pool.spec.replicas - seen.available, 0),
        replicas=seen.workload.deployment.status.replicas if seen.workload else 0,
        selector=",".join(f"{key}={value}" for key, value in selector(pool).items()),
        serviceName=seen.service.metadata.name if seen.service else "",
        observedGeneration=pool.metadata.generation,
    )
