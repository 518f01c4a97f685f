"""`status.prepare`, the condition Prepared, and the cause of a failure, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, PreparePhase, PrepareStatus, RecoveryPhase
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.api.v1alpha1.reasons import (
    PREPARED,
    STORAGE_INVALID_SPEC,
    STORAGE_PREPARE_FAILED,
    STORAGE_PREPARE_NOT_REQUESTED,
    STORAGE_PREPARE_PENDING,
    STORAGE_PREPARE_READY,
    STORAGE_PREPARE_RUNNING,
)
from gpu_runtime.controllers.child_kinds.jobs import Job, JobCondition
from gpu_runtime.controllers.child_kinds.workloads import PodView, ReplicaSetView, Terminated
from gpu_runtime.controllers.gpustorage.phases import Prepared
from gpu_runtime.controllers.gpustorage.resources.prepare_job import is_recovery, job_name
from gpu_runtime.controllers.startup_failure import ending, startup_failure, startup_progress
from gpu_runtime.files.progress import Progress

LONGEST = 1500  # characters of a message
REASONS: dict[PreparePhase, str] = {
    "NotRequested": STORAGE_PREPARE_NOT_REQUESTED,
    "Pending": STORAGE_PREPARE_PENDING,
    "Running": STORAGE_PREPARE_RUNNING,
    "Succeeded": STORAGE_PREPARE_READY,
    "Failed": STORAGE_PREPARE_FAILED,
}
BEGUN = ("Running", "Succeeded", "Failed")
"""Phases of a pod whose program has started. A pod that ended counts as running until its Job is over."""
NO_REPLICA_SET = ReplicaSetView(metadata=ObjectMeta())


@dataclass(frozen=True)
class Attempt:
    """One run of a prepare. Only an attempt that the status names may run, so an attempt that ran is always known."""

    digest: str
    job: str
    uid: str = ""
    """UID of its Job; empty until the Job has been created."""
    is_recorded: bool = False
    ran: bool = False
    """Whether its pod was seen running. It must not run twice: the second run would find the files of the first."""

    @classmethod
    def of(cls, storage: GPUStorage) -> Attempt:
        """The attempt that is under way, or the one that the storage asks for now."""
        before = storage.status.prepare
        if before is not None and before.phase in ("Pending", "Running") and before.jobName:
            ran = before.phase == "Running"
            return cls(before.observedDigest, before.jobName, before.jobUID, is_recorded=True, ran=ran)
        digest = prepare_digest(storage)
        return cls(digest, job_name(storage, digest))


def settled(storage: GPUStorage) -> Prepared | None:
    """The final result, if there is one: no prepare, a success, or a failure of the attempt that the storage asks for.

    A success stays final if somebody sets the recovery annotation by hand: a recovery would delete data of units.
    """
    before = storage.status.prepare
    if storage.spec.prepare is None:
        condition = Condition.true(
            PREPARED, STORAGE_PREPARE_NOT_REQUESTED, "the volume begins empty", storage.metadata.generation
        )
        return Prepared(PrepareStatus(phase="NotRequested"), condition)
    if before is None:
        return None
    if before.phase == "Succeeded":
        return prepared(storage, before)
    if before.phase == "Failed" and before.jobName and before.observedDigest == prepare_digest(storage):
        return prepared(storage, before)
    return None


def prepared(
    storage: GPUStorage, status: PrepareStatus, condition_message: str = "", requeue_after: float | None = None
) -> Prepared:
    """The status with the condition that belongs to it."""
    make = Condition.true if status.phase == "Succeeded" else Condition.false
    message = condition_message or status.message
    if status.phase == "Failed":
        message = f"filling the volume failed: {status.message}; recover the storage to try again with an empty volume"
    return Prepared(status, make(PREPARED, REASONS[status.phase], message, storage.metadata.generation), requeue_after)


def invalid(storage: GPUStorage, problems: Iterable[str]) -> Prepared:
    """The spec cannot be carried out. Nothing has run."""
    return impossible(storage, "; ".join(problems), STORAGE_INVALID_SPEC)


def impossible(storage: GPUStorage, problem: str, reason: str = STORAGE_PREPARE_FAILED) -> Prepared:
    """The volume cannot be filled, and a recovery would not help: the status names no attempt."""
    message = _cut(problem)
    condition = Condition.false(PREPARED, reason, message, storage.metadata.generation)
    return Prepared(PrepareStatus(phase="Failed", message=message), condition)


def pending(storage: GPUStorage, attempt: Attempt | None, message: str, requeue_after: float | None = None) -> Prepared:
    """Nothing runs yet. If `attempt` is given, its Job has been created."""
    return prepared(storage, _status(storage, attempt, "Pending", message), requeue_after=requeue_after)


def vanished(storage: GPUStorage, attempt: Attempt) -> Prepared:
    """Somebody deleted or suspended the Job. Nobody knows whether it finished, so the attempt has failed."""
    message = f"somebody deleted or suspended Job {attempt.job} before it was seen to finish"
    return prepared(storage, _status(storage, attempt, "Failed", message))


def observed(
    storage: GPUStorage, attempt: Attempt, job: Job, pods: Sequence[PodView], progress: Progress | None
) -> Prepared:
    """The state of a Job that was started."""
    if job.is_complete:
        status = _status(storage, attempt, "Succeeded", "the volume is filled")
        return prepared(storage, _timed(status, job, progress))
    if (failed := job.failed) is not None:
        status = _status(storage, attempt, "Failed", failure(storage, job, failed, pods))
        return prepared(storage, _timed(status, job, progress))
    if attempt.ran or any(pod.status.phase in BEGUN for pod in pods):  # "ran" is never taken back
        status = _status(storage, attempt, "Running", progress.line if progress is not None else _activity(storage))
        return prepared(storage, _timed(status, job, progress), _activity(storage))
    waits = startup_progress(pods[0]) if pods else f"Job {job.metadata.name} has no pod yet"
    status = _status(storage, attempt, "Pending", startup_failure(pods, NO_REPLICA_SET) or waits)
    return prepared(storage, _timed(status, job, None))


def failure(storage: GPUStorage, job: Job, failed: JobCondition, pods: Sequence[PodView]) -> str:
    """Why the Job failed: its deadline, the exit code and last output line of a container, or the state of its pod."""
    if failed.reason == "DeadlineExceeded":
        before = storage.status.prepare.message if storage.status.prepare is not None else ""
        last = f"; last state: {before}" if before else ""
        return _cut(f"not finished within its deadline of {job.spec.activeDeadlineSeconds} s{last}")
    for pod in pods:
        for container in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
            ended = container.state.terminated
            if ended is not None and (ended.exitCode or ended.signal):
                return _cut(f"container {container.name} {ending(_with_last_line(ended))}")
    return _cut(startup_failure(pods, NO_REPLICA_SET) or failed.message or failed.reason)


def _with_last_line(ended: Terminated) -> Terminated:
    """Shortens the termination message, which is the end of the log, to its last line."""
    lines = [line.strip() for line in ended.message.splitlines() if line.strip()]
    return structs.replace(ended, message=lines[-1] if lines else "")


def _status(storage: GPUStorage, attempt: Attempt | None, phase: PreparePhase, message: str) -> PrepareStatus:
    return PrepareStatus(
        phase=phase,
        jobName=attempt.job if attempt is not None else "",
        jobUID=attempt.uid if attempt is not None else "",
        observedDigest=attempt.digest if attempt is not None else "",
        recoveryPhase=_recovery(phase, recovers=is_recovery(storage)),
        message=_cut(message),
    )


def _recovery(phase: PreparePhase, *, recovers: bool) -> RecoveryPhase:
    if phase == "Failed":
        return "Required"
    if not recovers:
        return "None"
    return "Succeeded" if phase == "Succeeded" else "Running"


def _timed(status: PrepareStatus, job: Job, progress: Progress | None) -> PrepareStatus:
    ended = job.status.completionTime or (job.failed.lastTransitionTime if job.failed is not None else None)
    status = structs.replace(status, startTime=job.status.startTime, completionTime=ended)
    if progress is None:
        return status
    return structs.replace(
        status,
        filesCopied=progress.files,
        filesTotal=progress.files_total,
        bytesCopied=progress.bytes,
        bytesTotal=progress.bytes_total,
    )


def _activity(storage: GPUStorage) -> str:
    prepare = storage.spec.prepare
    assert prepare is not None
    if prepare.fromStorageName is not None:
        return f"copying the files of storage {prepare.fromStorageName}"
    return f"image {prepare.fromImage} fills the volume"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
