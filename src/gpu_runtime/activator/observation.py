"""What is seen of a function's workers, from their units and their heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_runtime.activator.decision import Worker, WorkerState
from gpu_runtime.activator.demand import Demand
from gpu_runtime.activator.resources import names
from gpu_runtime.activator.resources.worker import outdated
from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.serverless.heartbeats import Heartbeat

STABLE_SECONDS = 60.0
"""After a worker was ready for this long, failures in its slot count from zero again."""
SILENT_SECONDS = 60.0
"""A worker that sends no heartbeat for this long, although its unit is Ready, is replaced."""


@dataclass(frozen=True)
class Limits:
    """How long a worker may take to start, and how long it may be silent."""

    ready_seconds: float = 600.0
    silent_seconds: float = SILENT_SECONDS


@dataclass(frozen=True)
class Seen:
    """A worker and its unit; `cause` says why it is not ready."""

    unit: GPUUnit
    worker: Worker
    cause: str = ""


@dataclass
class Memory:
    """What the activator remembers of one function. Losing it costs time, never correctness."""

    uid: str
    demand: Demand
    states: dict[str, tuple[WorkerState, float]] = field(default_factory=dict)
    """State of each unit by UID, and since when."""
    heard: dict[str, float] = field(default_factory=dict)
    """When each unit's worker was last heard, by UID."""
    failures: dict[int, int] = field(default_factory=dict)
    """By slot: workers that failed since the last one that was ready."""
    removed: set[str] = field(default_factory=set)
    """UIDs of units that were deleted and that the cache may still show."""

    def since(self, uid: str, state: WorkerState, now: float) -> float:
        before = self.states.get(uid)
        if before is None or before[0] != state:
            self.states[uid] = before = (state, now)
        return before[1]

    def keep_only(self, uids: set[str]) -> None:
        for gone in self.states.keys() - uids:
            self.states.pop(gone)
            self.heard.pop(gone, None)
        self.removed &= uids


@dataclass(frozen=True)
class Observer:
    """Sees the workers of one function at one time."""

    function: GPUFunction
    memory: Memory
    now: float
    listening_since: float
    """Heartbeats before this time may have been missed."""
    limits: Limits = Limits()

    def workers(self, units: Iterable[GPUUnit], heartbeats: Mapping[str, Heartbeat]) -> list[Seen]:
        """The workers by slot. Units with other names are left out."""
        seen = [
            self._seen(slot, unit, heartbeats.get(unit.metadata.name))
            for unit in units
            if (slot := names.slot_of(self.function.metadata.name, unit.metadata.name)) is not None
        ]
        self.memory.keep_only({each.unit.metadata.uid for each in seen})
        return sorted(seen, key=lambda each: each.worker.slot)

    def _seen(self, slot: int, unit: GPUUnit, heartbeat: Heartbeat | None) -> Seen:
        memory, uid = self.memory, unit.metadata.uid
        if heartbeat is not None:
            memory.heard[uid] = heartbeat.heard
        state, cause = self._state(unit, heartbeat)
        since = memory.since(uid, state, self.now)
        if state == "ready" and self.now - since >= STABLE_SECONDS:
            memory.failures.pop(slot, None)
        late = self._late(unit, state, since, heartbeat)
        if late is not None:
            state, since, cause = "failed", late[0], late[1]
        worker = Worker(
            slot=slot,
            state=state,
            state_seconds=self.now - since,
            running=_running(heartbeat),
            idle_seconds=heartbeat.idle_seconds(self.now) if heartbeat is not None else 0.0,
            outdated=outdated(self.function, unit),
            failures=memory.failures.get(slot, 0),
        )
        return Seen(unit, worker, cause)

    def _state(self, unit: GPUUnit, heartbeat: Heartbeat | None) -> tuple[WorkerState, str]:
        meta, status = unit.metadata, unit.status
        if meta.deletionTimestamp is not None or meta.uid in self.memory.removed:
            return "ending", "it is being deleted"
        said = heartbeat.said if heartbeat is not None else None
        is_current = status.observedGeneration >= meta.generation
        # After a change the old pod still reports `draining` while it ends. That says nothing about the new pod, and
        # until the new pod is there the unit is not Ready.
        if said is not None and said.state == "draining" and (said.running or (is_current and status.phase == "Ready")):
            return "draining", "it takes no more invocations"
        ready = find_condition(status.conditions, READY)
        words = ready.message if ready is not None else "its unit has no status yet"
        if not is_current:
            return "starting", words
        if status.phase == "Failed":
            return "failed", words
        if status.phase == "Ready" and (said is None or said.state != "starting"):
            return "ready", ""
        return "starting", (said.problem if said is not None else "") or words

    def _late(
        self, unit: GPUUnit, state: WorkerState, since: float, heartbeat: Heartbeat | None
    ) -> tuple[float, str] | None:
        """Since when the worker counts as failed although its unit does not say so, and why."""
        if state == "starting" and (late := since + self.limits.ready_seconds) <= self.now:
            return late, f"it was not ready within {self.limits.ready_seconds:g} s: {self._state(unit, heartbeat)[1]}"
        heard = max(since, self.listening_since, self.memory.heard.get(unit.metadata.uid, since))
        if state == "ready" and (late := heard + self.limits.silent_seconds) <= self.now:
            return late, f"its worker was not heard for {self.now - heard:.0f} s, although its unit is Ready"
        return None


def _running(heartbeat: Heartbeat | None) -> int:
    """How many runs the worker has. A draining worker may still get a run until it reports that it is idle."""
    if heartbeat is None:
        return 0
    is_open = heartbeat.said.state == "draining" and heartbeat.said.idleSince is None
    return max(len(heartbeat.said.running), int(is_open))
