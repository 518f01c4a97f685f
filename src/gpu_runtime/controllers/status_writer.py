"""Writes a status when it says something new, and tells people when it turned for the worse or the better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from msgspec import structs

from gpu_runtime.api.meta.condition import Condition, find_condition, set_condition
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitStatus
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolStatus
from gpu_runtime.controllers.mirror import Mirror
from gpu_runtime.controllers.verdict import Verdict
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", StockPool, GPUUnit)
Status = StockPoolStatus | GPUUnitStatus
FIRST_SECONDS = 2.0
AGAIN_SECONDS = 5.0


@dataclass(frozen=True)
class StatusWriter(Generic[T]):
    """The one writer of the status of one kind."""

    resource: Resource[T]
    mirror: Mirror[T]
    client: Client
    clock: Clock
    recorder: Recorder | None = None

    async def write(self, obj: T, status: Status, verdict: Verdict, workload: Workload | None = None) -> float | None:
        """Writes `status` with the verdict's condition if it differs; otherwise nothing, not even its time.

        The answer, if any, is when to come back: to say "not yet" of an object or a workload that was just made, or
        once more and otherwise, is worth a write only if it stays so; most are ready before anybody looks.
        """
        old = obj.status
        now = self.clock.now()
        condition = verdict.condition(obj.metadata.generation)
        new = structs.replace(
            status, conditions=set_condition(old.conditions, condition, now), lastSyncTime=old.lastSyncTime
        )
        if new == old:
            return None
        if verdict.state == "progressing" and (patience := self._patience(obj, condition, workload)):
            return patience
        new = structs.replace(new, lastSyncTime=now.replace(microsecond=0))
        try:
            written = await self.client.replace(self.resource, structs.replace(obj, status=new), subresource="status")
        except NotFound:
            return None  # deleted meanwhile, and its status with it
        self.mirror.wrote(written)
        self._tell(obj, verdict)
        return None

    def _patience(self, obj: T, condition: Condition, workload: Workload | None) -> float | None:
        """How long a status that says no more than "not yet" can wait, if it can."""
        before = find_condition(obj.status.conditions, condition.type)
        if before is None:
            # Under load the queue delays the first reconcile, so measure from the Deployment's creation.
            since, patience = (workload.deployment if workload else obj).metadata.creationTimestamp, FIRST_SECONDS
        elif obj.status.phase == "Progressing":
            # The status says "not yet" already; only the reason differs, if anything.
            since, patience = obj.status.lastSyncTime, AGAIN_SECONDS
        else:
            return None  # the old status is no longer true, so the new one is written at once
        age = (self.clock.now() - since).total_seconds() if since is not None else patience
        # A clock that is behind the server's must not silence the status: then it is just written at once.
        return patience - age if -1.0 < age < patience else None

    def _tell(self, obj: T, verdict: Verdict) -> None:
        before = find_condition(obj.status.conditions, READY)
        if before is not None and before.reason == verdict.reason:
            return
        log = structlog.get_logger("status").bind(kind=self.resource.kind, key=str(obj.metadata.key))
        log.info("now", state=verdict.state, reason=verdict.reason, message=verdict.message)
        if self.recorder is None:
            return
        if verdict.state == "failed":
            self.recorder.event(self.resource, obj, verdict.reason, verdict.message, type="Warning")
        elif verdict.state == "ready" and obj.status.phase == "Failed":
            # No event for the first readiness: the condition shows it with its time, and an event costs a write.
            self.recorder.event(self.resource, obj, verdict.reason, verdict.message)
