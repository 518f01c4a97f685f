"""Decides about a Job by its pods. Pure: objects in, numbers and conditions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import Job, UncountedPods

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that is not yet counted: without it a deleted pod could be missed."""
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 600.0


@dataclass(frozen=True)
class Tally:
    """A Job's pods by what they count as."""

    active: list[Pod]
    terminating: int
    succeeded: int
    failed: int
    uncounted: UncountedPods
    """Ended pods that are in `succeeded` and `failed` but not yet in the Job's counters."""
    releasable: list[Pod]
    """Pods whose finalizer may be removed once `uncounted` is written to the Job's status."""


def find(job: Job, name: str) -> Condition | None:
    return next((one for one in job.status.conditions if one.type == name and one.status == "True"), None)


def is_finished(job: Job) -> bool:
    return find(job, COMPLETE) is not None or find(job, FAILED) is not None


def counts_as_failed(job: Job, pod: Pod) -> bool:
    """A pod that was deleted before it could end counts too, unless the Job waits for its end to replace it."""
    if pod.status.phase == "Failed":
        return True
    if job.spec.podReplacementPolicy == "Failed":
        return False
    return pod.metadata.deletionTimestamp is not None and pod.status.phase != "Succeeded"


def tally(job: Job, pods: Sequence[Pod], decided: Condition | None = None) -> Tally:
    """Counts every ended pod once: counted ones have lost their finalizer, uncounted ones are listed by uid.

    When it is decided that the Job fails, whatever still runs counts as failed, however it ends once it is stopped.
    """
    fails = decided is not None and decided.type == FAILURE_TARGET
    tracked = [pod for pod in pods if TRACKING in pod.metadata.finalizers]
    known = job.status.uncountedTerminatedPods or UncountedPods()
    present = {pod.metadata.uid for pod in tracked}
    moved_succeeded = [uid for uid in known.succeeded if uid not in present]
    moved_failed = [uid for uid in known.failed if uid not in present]
    # What the status says stays: a pod that counted as failed may still succeed after we stopped it.
    succeeded = [
        pod.metadata.uid for pod in tracked if pod.status.phase == "Succeeded" and pod.metadata.uid not in known.failed
    ]
    failed = [
        pod.metadata.uid
        for pod in tracked
        if pod.metadata.uid not in succeeded
        and (pod.metadata.uid in known.failed or fails or counts_as_failed(job, pod))
    ]
    ended = {*succeeded, *failed}
    over = decided is not None or job.metadata.deletionTimestamp is not None
    return Tally(
        active=[pod for pod in pods if pod.active],
        terminating=sum(pod.terminating for pod in pods),
        succeeded=job.status.succeeded + len(moved_succeeded) + len(succeeded),
        failed=job.status.failed + len(moved_failed) + len(failed),
        uncounted=UncountedPods(succeeded=succeeded, failed=failed),
        releasable=[pod for pod in tracked if over or pod.metadata.uid in ended],
    )


def outcome(job: Job, counts: Tally, now: datetime) -> Condition | None:
    """The interim condition that decides how the Job ends; None while it goes on."""
    for name in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        if (decided := find(job, name)) is not None:
            return decided
    if counts.failed > job.spec.backoffLimit or _too_many_restarts(job, counts.active):
        return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if not job.spec.suspend and (left := deadline_in(job, now)) is not None and left <= 0:
        return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
    if _is_complete(job, counts):
        return Condition(
            type=SUCCESS_CRITERIA_MET,
            status="True",
            reason="CompletionsReached",
            message="Reached expected number of succeeded pods",
        )
    return None


def _failure(reason: str, message: str) -> Condition:
    return Condition(type=FAILURE_TARGET, status="True", reason=reason, message=message)


def _is_complete(job: Job, counts: Tally) -> bool:
    if job.spec.completions is None:
        return counts.succeeded > 0 and not counts.active
    return counts.succeeded >= job.spec.completions


def _too_many_restarts(job: Job, active: Sequence[Pod]) -> bool:
    """Pods that are restarted in place never fail: their restarts count instead."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    started = [pod for pod in active if pod.status.phase in {"Running", "Pending"}]
    restarts = sum(
        one.restartCount
        for pod in started
        for one in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    )
    return restarts > 0 if job.spec.backoffLimit == 0 else restarts >= job.spec.backoffLimit


def final_condition(decided: Condition) -> Condition:
    name = FAILED if decided.type == FAILURE_TARGET else COMPLETE
    return Condition(type=name, status="True", reason=decided.reason, message=decided.message)


def wanted_active(job: Job, counts: Tally) -> int:
    """How many pods shall run now."""
    if job.spec.suspend:
        return 0
    if job.spec.completions is None:
        return len(counts.active) if counts.succeeded else job.spec.parallelism
    return max(0, min(job.spec.completions - counts.succeeded, job.spec.parallelism))


def deadline_in(job: Job, now: datetime) -> float | None:
    """Seconds that the Job may still run; None without a deadline."""
    if job.spec.activeDeadlineSeconds is None or job.status.startTime is None:
        return None
    return (job.status.startTime + timedelta(seconds=job.spec.activeDeadlineSeconds) - now).total_seconds()


def backoff_in(pods: Sequence[Pod], now: datetime) -> float:
    """Seconds until a failed pod may be replaced: longer with each failure since the last success."""
    successes = [_ended(pod, now) for pod in pods if pod.status.phase == "Succeeded"]
    last_success = max(successes, default=None)
    failures = [_ended(pod, now) for pod in pods if pod.status.phase == "Failed"]
    since = [time for time in failures if last_success is None or time > last_success]
    if not since:
        return 0.0
    wait = min(FIRST_BACKOFF * 2 ** min(len(since) - 1, 20), LONGEST_BACKOFF)
    return (max(since) + timedelta(seconds=wait) - now).total_seconds()


def _ended(pod: Pod, now: datetime) -> datetime:
    ends = [
        one.state.terminated.finishedAt
        for one in pod.status.containerStatuses
        if one.state.terminated is not None and one.state.terminated.finishedAt is not None
    ]
    if ends:
        return max(ends)
    ready = pod.ready_condition
    if ready is not None and ready.lastTransitionTime is not None:
        return ready.lastTransitionTime
    return pod.metadata.deletionTimestamp or pod.metadata.creationTimestamp or now


def expires_in(job: Job, now: datetime) -> float | None:
    """Seconds until a finished Job is deleted; None when it stays."""
    ttl = job.spec.ttlSecondsAfterFinished
    finished = find(job, COMPLETE) or find(job, FAILED)
    if ttl is None or finished is None or finished.lastTransitionTime is None:
        return None
    return (finished.lastTransitionTime + timedelta(seconds=ttl) - now).total_seconds()
