"""The status of a function: its phase and its Ready condition, from what is seen of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from gpu_runtime.activator.observation import Seen
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionPhase, GPUFunctionStatus
from gpu_runtime.api.v1alpha1.reasons import (
    FUNCTION_IDLE,
    FUNCTION_PROGRESSING,
    FUNCTION_READY,
    FUNCTION_UPDATING,
    READY,
    WORKERS_FAILED,
)

State = Literal["idle", "progressing", "ready", "failed"]
PHASES: dict[State, GPUFunctionPhase] = {
    "idle": "Idle",
    "progressing": "Progressing",
    "ready": "Ready",
    "failed": "Failed",
}


@dataclass(frozen=True)
class Readiness:
    """The state of a function, with the reason for programs and the message for people."""

    state: State
    reason: str
    message: str

    def condition(self, generation: int) -> Condition:
        """An idle function takes invocations: they wait for a worker to start. So it is Ready."""
        status = Condition.true if self.state in ("ready", "idle") else Condition.false
        return status(READY, self.reason, self.message, generation)


class Blocked(Exception):
    """A phase of the reconcile cannot go on. The outcome goes into the status; after `seconds` it is tried again."""

    def __init__(self, outcome: Readiness, *, seconds: float | None = None) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
        self.seconds = seconds


def readiness(seen: Sequence[Seen], needed: int) -> Readiness:
    """The first rule that applies."""
    ready = [each for each in seen if each.worker.state == "ready"]
    failed = [each for each in seen if each.worker.state == "failed"]
    starting = [each for each in seen if each.worker.state == "starting"]
    trouble = f"{_name(failed[0])} failed: {failed[0].cause}" if failed else ""
    if failed and not ready:
        return Readiness("failed", WORKERS_FAILED, trouble)
    if ready and all(each.worker.outdated for each in ready):
        return Readiness("progressing", FUNCTION_UPDATING, "its workers still run what it was before its last change")
    if ready:
        words = f"{len(ready)} of its workers take{'s' if len(ready) == 1 else ''} invocations"
        return Readiness("ready", FUNCTION_READY, f"{words}; {trouble}" if trouble else words)
    if starting:
        return Readiness("progressing", FUNCTION_PROGRESSING, f"{_name(starting[0])} starts: {starting[0].cause}")
    if needed or any(each.worker.state == "draining" for each in seen):
        return Readiness("progressing", FUNCTION_PROGRESSING, "a worker starts or ends")
    return Readiness("idle", FUNCTION_IDLE, "no worker runs; the next invocation starts one")


def status(function: GPUFunction, seen: Sequence[Seen], outcome: Readiness) -> GPUFunctionStatus:
    there = [each for each in seen if each.worker.state != "ending"]
    return replace(
        function.status,
        phase=PHASES[outcome.state],
        workers=len(there),
        readyWorkers=sum(each.worker.state == "ready" for each in there),
        observedGeneration=function.metadata.generation,
    )


def _name(seen: Seen) -> str:
    return f"worker {seen.unit.metadata.name}"
