"""Writes a status with its Ready condition, and tells people when the object fails or recovers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import structlog

from gpu_runtime.api.meta.condition import Condition, find_condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.controllers.readiness import Readiness
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.status_writer import StatusWriter

FIRST_SECONDS = 2.0
AGAIN_SECONDS = 5.0


class PhasedStatus(Protocol):
    """The status of every kind of ours."""

    @property
    def phase(self) -> str | None: ...

    @property
    def lastSyncTime(self) -> datetime | None: ...  # noqa: N802  the name on the wire

    @property
    def conditions(self) -> list[Condition]: ...


class PhasedObject(Protocol):
    """An object of any kind of ours."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def status(self) -> PhasedStatus: ...


T = TypeVar("T", bound=PhasedObject)


@dataclass(frozen=True)
class ReadyStatus(Generic[T]):
    """The one writer of the Ready condition of one kind."""

    writer: StatusWriter[T]
    recorder: Recorder | None = None

    @classmethod
    def of(
        cls,
        resource: Resource[T],
        cache: OwnWrites[T],
        client: Client,
        clock: Clock,
        recorder: Recorder | None,
        further: tuple[str, ...] = (),
    ) -> ReadyStatus[T]:
        """`further` are the other condition types that the reconciler reports beside Ready."""
        owns = (READY, *further)
        writer = StatusWriter(resource, cache, client, owns=owns, time_field="lastSyncTime", clock=clock)
        return cls(writer, recorder)

    async def write(
        self,
        obj: T,
        status: PhasedStatus,
        outcome: Readiness,
        workload: Workload | None = None,
        *,
        child: ObjectMeta | None = None,
        conditions: Sequence[Condition] = (),
        can_wait: bool = True,
    ) -> float | None:
        """Writes `status` with the outcome's condition and `conditions` if it differs.

        A progressing status that `can_wait` is written only after 2 s: most objects are Ready before that, and the
        write is saved.
        The result, if any, is the number of seconds after which to come back for that write.
        """
        condition = outcome.condition(obj.metadata.generation)
        new = self.writer.difference(obj, status, [condition, *conditions])
        if new is None:
            return None
        if can_wait and outcome.state == "progressing" and (delay := self._delay(obj, child or _deployment(workload))):
            return delay
        if await self.writer.put(obj, new):
            self._tell(obj, outcome)
        return None

    def _delay(self, obj: T, child: ObjectMeta | None) -> float | None:
        """How long a status that only says "progressing" can wait, if it can."""
        if find_condition(obj.status.conditions, READY) is None:
            # Under load the queue delays the first reconcile, so measure from the creation of its child.
            since, delay = (child or obj.metadata).creationTimestamp, FIRST_SECONDS
        elif obj.status.phase == "Progressing":
            # The status says "progressing" already; at most its reason changes.
            since, delay = obj.status.lastSyncTime, AGAIN_SECONDS
        else:
            return None  # the old status is no longer true, so the new one is written at once
        age = (self.writer.clock.now() - since).total_seconds() if since is not None else delay
        # A clock that is behind the server's must not silence the status: then it is written at once.
        return delay - age if -1.0 < age < delay else None

    def _tell(self, obj: T, outcome: Readiness) -> None:
        before = find_condition(obj.status.conditions, READY)
        if before is not None and before.reason == outcome.reason:
            return
        resource = self.writer.resource
        log = structlog.get_logger("status").bind(kind=resource.kind, key=str(obj.metadata.key))
        log.info("now", state=outcome.state, reason=outcome.reason, message=outcome.message)
        if self.recorder is None:
            return
        if outcome.state == "failed":
            self.recorder.event(resource, obj, outcome.reason, outcome.message, type="Warning")
        elif outcome.state == "ready" and obj.status.phase == "Failed":
            # No event for the first readiness: the condition shows it with its time, and an event costs a write.
            self.recorder.event(resource, obj, outcome.reason, outcome.message)


def _deployment(workload: Workload | None) -> ObjectMeta | None:
    return workload.deployment.metadata if workload is not None else None


def complete_when(reasons: frozenset[str]) -> Callable[[PhasedObject], bool]:
    """Tells whether every child of the current spec was made before: Ready has one of `reasons` for this generation."""

    def is_complete(obj: PhasedObject) -> bool:
        ready = find_condition(obj.status.conditions, READY)
        return ready is not None and ready.reason in reasons and ready.observedGeneration == obj.metadata.generation

    return is_complete
