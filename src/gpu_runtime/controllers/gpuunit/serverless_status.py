"""Whether a unit takes invocations: `status.serverless` and the condition ServerlessReady. Pure.

The worker's readiness is part of the pod's, so a Ready unit takes invocations.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import (
    SERVERLESS_CONFIG_INVALID,
    SERVERLESS_READY,
    UNIT_SERVERLESS_FAILED,
    UNIT_SERVERLESS_PENDING,
    UNIT_SERVERLESS_READY,
)
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS, ServerlessPhase, ServerlessStatus
from gpu_runtime.controllers.readiness import Readiness, State

PHASES: dict[State, tuple[ServerlessPhase, str]] = {
    "ready": ("Ready", UNIT_SERVERLESS_READY),
    "progressing": ("Pending", UNIT_SERVERLESS_PENDING),
    "failed": ("Failed", UNIT_SERVERLESS_FAILED),
    "empty": ("Pending", UNIT_SERVERLESS_PENDING),
}


@dataclass(frozen=True)
class Serving:
    """What a unit reports about its part in a serverless function. Nothing, if it has none."""

    status: ServerlessStatus | None = None
    conditions: tuple[Condition, ...] = ()


def serving(unit: GPUUnit, outcome: Readiness) -> Serving:
    """What the unit reports, from the outcome of its Ready checks."""
    serverless = unit.spec.serverless
    if serverless == NOT_SERVERLESS:
        return Serving()
    if not serverless.enabled:
        return Serving(ServerlessStatus(phase="Disabled"))
    phase, reason = PHASES[outcome.state]
    if outcome.reason == SERVERLESS_CONFIG_INVALID:
        reason = SERVERLESS_CONFIG_INVALID
    message = f"takes invocations of {serverless.requestID}" if outcome.state == "ready" else outcome.message
    make = Condition.true if outcome.state == "ready" else Condition.false
    framework = serverless.framework
    return Serving(
        ServerlessStatus(
            phase=phase,
            socketPath=framework.socketPath,
            invokePath=framework.invokePath,
            healthPath=framework.healthPath,
        ),
        (make(SERVERLESS_READY, reason, message, unit.metadata.generation),),
    )
