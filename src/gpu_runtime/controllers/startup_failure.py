"""Why pods do not start, in the words of the kubelet, the scheduler or the quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from gpu_runtime.controllers.child_kinds.workloads import (
    ContainerStatus,
    PodView,
    ReplicaSetView,
    Terminated,
    WorkloadCondition,
)

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
CRASH_LOOP = "CrashLoopBackOff"


class Rank(IntEnum):
    """Order of causes. The one nearest to the user's program is reported, because the user can act on it."""

    CRASHED = 1
    CANNOT_START = 2
    POD_FAILED = 3
    UNSCHEDULABLE = 4


def startup_failure(pods: Iterable[PodView], replica_set: ReplicaSetView) -> str | None:
    """What keeps the pods of one ReplicaSet from running; None when nothing does."""
    found = [
        (rank, pod.metadata.name, message)
        for pod in pods
        if pod.metadata.deletionTimestamp is None  # how a deleted pod ends is not a failure
        for rank, message in _causes(pod)
    ]
    if found:
        # By rank, then by name, so that the message stays the same while several pods fail.
        _, name, message = min(found)
        return f"Pod {name}{message}"
    refused = _condition(replica_set.status.conditions, "ReplicaFailure")
    if refused is not None and refused.status == "True":
        return f"no pod can be created: {refused.message or refused.reason}"
    return None


def startup_progress(pod: PodView) -> str:
    """What a starting pod waits for."""
    name, node = pod.metadata.name, pod.spec.nodeName
    if not node:
        return f"Pod {name} waits for a node"
    containers = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    starting = next((each.state.waiting for each in containers if each.state.waiting is not None), None)
    if starting is not None or not containers:
        return f"Pod {name} on node {node} is starting: {(starting and starting.reason) or 'ContainerCreating'}"
    crash = next((each.lastState.terminated for each in containers if each.lastState.terminated is not None), None)
    before = f"; it was restarted after it {ending(crash)}" if crash is not None else ""
    return f"Pod {name} on node {node} runs and is not ready yet{before}"


def _causes(pod: PodView) -> Iterator[tuple[Rank, str]]:
    for container in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        yield from _container_causes(container)
    if pod.status.phase == "Failed":
        yield Rank.POD_FAILED, f": {_joined(pod.status.reason, pod.status.message) or 'failed without a reason'}"
    scheduled = _condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable":
        yield Rank.UNSCHEDULABLE, f" cannot be scheduled: {scheduled.message}"


def _container_causes(container: ContainerStatus) -> Iterator[tuple[Rank, str]]:
    where = f" container {container.name}: "
    waiting, ended = container.state.waiting, container.state.terminated
    if waiting is not None and waiting.reason == CRASH_LOOP:
        last = container.lastState.terminated
        yield Rank.CRASHED, where + (f"{CRASH_LOOP}: {ending(last)}" if last else _joined(CRASH_LOOP, waiting.message))
    elif waiting is not None and waiting.reason not in STARTING:
        yield Rank.CANNOT_START, where + _joined(waiting.reason, waiting.message)
    elif ended is not None and (ended.exitCode or ended.signal):
        yield Rank.CRASHED, where + ending(ended)


def ending(ended: Terminated) -> str:
    """`exited with code 137 (OOMKilled): last words`."""
    how = (
        f"ended by signal {ended.signal}"
        if ended.signal and not ended.exitCode
        else f"exited with code {ended.exitCode}"
    )
    why = f" ({ended.reason})" if ended.reason not in ("", "Error", "Completed") else ""
    words = f": {ended.message.strip()}" if ended.message.strip() else ""
    return how + why + words


def _joined(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, message) if part)


def _condition(conditions: Iterable[WorkloadCondition], kind: str) -> WorkloadCondition | None:
    return next((each for each in conditions if each.type == kind), None)
