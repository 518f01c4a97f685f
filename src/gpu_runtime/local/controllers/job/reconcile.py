"""Drives one Job: count what ended, decide, create or delete pods, report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import ApiError, NotFound, Terminal
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.expectations import Expectations
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.claiming import OWNER, Claiming
from gpu_runtime.local.controllers.creating import create_pods, pod_from
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.job import decisions
from gpu_runtime.local.controllers.job.decisions import SUSPENDED, TRACKING, Tally
from gpu_runtime.local.controllers.replicaset import deletion_order
from gpu_runtime.local.controllers.status_writer import status_patch
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import JOBS, Job, JobStatus, UncountedPods

BY_JOB = "job"


def _job_of(pod: Pod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (str(Key(pod.metadata.namespace, owner.name)),) if owner is not None and owner.kind == JOBS.kind else ()


class JobReconciler:
    """Reads caches only; every ended pod is written down before its finalizer goes."""

    def __init__(
        self, client: Client, recorder: Recorder, jobs: Store[Job], pods: Store[Pod], *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._jobs = jobs
        self._pods = pods
        pods.index(BY_JOB, _job_of)
        self._claiming = Claiming(client, JOBS, PODS, pods)
        self._created = Expectations(pods)
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        job = self._jobs.get(key)
        await self._release(self._strays(key, job))
        if job is None or job.spec.managedBy:
            return Result()
        if not self._created.met(key):
            return Result(0.01)
        if job.spec.completionMode == "Indexed":
            message = "Indexed Jobs are not run by the embedded cluster: use completionMode NonIndexed"
            self._recorder.event(JOBS, job, "Unsupported", message, type="Warning")
            raise Terminal(message)
        now = self._clock.now()
        if decisions.is_finished(job):
            await self._release(self._pods.find(OWNER, job.metadata.uid))
            return await self._expire(job, now)
        pods = await self._claiming.children(job, job.spec.selector)
        counts = decisions.tally(job, pods)
        job = await self._begin(job, now)
        decided = decisions.outcome(job, counts, now)
        if decided is not None:
            counts = decisions.tally(job, pods, decided)
        wait, failure = await self._manage(job, counts, pods, decided, now)
        job = await self._count(job, counts, decided, now)
        if failure is not None:
            raise failure
        left = decisions.deadline_in(job, now) if decided is None else None
        waits = [one for one in (wait, left, decisions.expires_in(job, now)) if one is not None]
        return Result(max(0.0, min(waits)) + 0.05 if waits else None)

    def _strays(self, key: Key, job: Job | None) -> list[Pod]:
        """Pods that are being deleted after their Job: nobody counts them any more, so nothing must keep them."""
        uid = job.metadata.uid if job is not None else ""
        ending = [pod for pod in self._pods.find(BY_JOB, str(key)) if pod.metadata.deletionTimestamp is not None]
        return [pod for pod in ending if pod.metadata.controller and pod.metadata.controller.uid != uid]

    async def _expire(self, job: Job, now: datetime) -> Result:
        left = decisions.expires_in(job, now)
        if left is None or job.metadata.deletionTimestamp is not None:
            return Result()
        if left > 0:
            return Result(left + 0.05)
        with suppress(NotFound):
            await self._client.delete(JOBS, job.metadata.key, uid=job.metadata.uid, propagation="Foreground")
        return Result()

    async def _begin(self, job: Job, now: datetime) -> Job:
        """Records the start, and each suspension and resumption."""
        status, reason = job.status, ""
        suspended = decisions.find(job, SUSPENDED)
        if job.spec.suspend and suspended is None:
            reason = "Suspended"
            status = _with(status, _suspension("True", "JobSuspended", "Job suspended"), now)
        elif not job.spec.suspend and suspended is not None:
            reason = "Resumed"
            status = replace(status, startTime=None)  # its deadline starts again
            status = _with(status, _suspension("False", "JobResumed", "Job resumed"), now)
        if not job.spec.suspend and status.startTime is None:
            status = replace(status, startTime=now.replace(microsecond=0))
        if not reason:
            return replace(job, status=status)  # written together with the counts
        job = await self._write(job, status)
        self._recorder.event(JOBS, job, reason, f"Job {reason.lower()}")
        return job

    async def _manage(
        self, job: Job, counts: Tally, pods: Sequence[Pod], decided: Condition | None, now: datetime
    ) -> tuple[float | None, ApiError | None]:
        """Creates or deletes pods. Returns when to try again, and the error if there was one."""
        if job.metadata.deletionTimestamp is not None:
            return None, None
        if decided is not None:
            await self._delete(job, counts.active)
            return None, None
        wanted = decisions.wanted_active(job, counts)
        surplus = len(counts.active) - wanted
        if surplus > 0:
            chosen = deletion_order(counts.active)[:surplus]
            await self._release(chosen)  # surplus pods must not be counted as failed
            await self._delete(job, chosen)
            return None, None
        running = len(counts.active) + (counts.terminating if job.spec.podReplacementPolicy == "Failed" else 0)
        if running >= wanted:
            return None, None
        wait = decisions.backoff_in(pods, now)
        if wait > 0:
            return wait, None
        return None, await self._create(job, wanted - running)

    async def _create(self, job: Job, count: int) -> ApiError | None:
        document = pod_from(job.spec.template, JOBS, job, finalizers=[TRACKING])
        return await create_pods(self._client, self._recorder, self._created, JOBS, job, document, count)

    async def _delete(self, job: Job, pods: Sequence[Pod]) -> None:
        async def end(pod: Pod) -> None:
            try:
                await self._client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)
            except NotFound:
                return
            self._recorder.event(JOBS, job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

        await asyncio.gather(*(end(pod) for pod in pods))

    async def _count(self, job: Job, counts: Tally, decided: Condition | None, now: datetime) -> Job:
        """Three steps, each safe to repeat: list the ended pods by uid, let them go, add them to the counters."""
        live = self._jobs.get(job.metadata.key) or job
        uncounted = len(counts.uncounted.succeeded), len(counts.uncounted.failed)
        status = replace(
            job.status,
            active=len(counts.active) if decided is None else 0,
            ready=sum(pod.ready for pod in counts.active) if decided is None else 0,
            terminating=counts.terminating + (len(counts.active) if decided is not None else 0),
            succeeded=counts.succeeded - uncounted[0],
            failed=counts.failed - uncounted[1],
            uncountedTerminatedPods=counts.uncounted,
        )
        if decided is not None:
            status = _with(status, decided, now)
        if any(uncounted):
            job = await self._write(replace(live, metadata=job.metadata), status)
            await self._release(counts.releasable)
            status = replace(
                status,
                succeeded=counts.succeeded,
                failed=counts.failed,
                uncountedTerminatedPods=UncountedPods(),
            )
        else:
            job = replace(live, metadata=job.metadata)
            await self._release(counts.releasable)
        if decided is not None and not status.terminating:
            status = _finished(status, decided, now)
        return await self._finish(job, status)

    async def _finish(self, job: Job, status: JobStatus) -> Job:
        job = await self._write(job, status)
        if (failed := decisions.find(job, decisions.FAILED)) is not None:
            self._recorder.event(JOBS, job, failed.reason, failed.message, type="Warning")
        elif decisions.find(job, decisions.COMPLETE) is not None:
            self._recorder.event(JOBS, job, "Completed", "Job completed")
        return job

    async def _release(self, pods: Sequence[Pod]) -> None:
        await asyncio.gather(*(remove_finalizer(self._client, PODS, pod.metadata, TRACKING) for pod in pods))

    async def _write(self, job: Job, status: JobStatus) -> Job:
        patch = status_patch(job.status, status)
        if not patch:
            return job
        document = {"metadata": identity(job.metadata), "status": patch}
        return await self._client.patch(JOBS, job.metadata.key, document, subresource="status")


def _suspension(status: str, reason: str, message: str) -> Condition:
    return Condition(type=SUSPENDED, status=status, reason=reason, message=message)


def _finished(status: JobStatus, decided: Condition, now: datetime) -> JobStatus:
    status = _with(status, decisions.final_condition(decided), now)
    if decided.type == decisions.SUCCESS_CRITERIA_MET:
        status = replace(status, completionTime=now.replace(microsecond=0))
    return status


def _with(status: JobStatus, new: Condition, now: datetime) -> JobStatus:
    """The status with the condition set. An equal condition changes nothing."""
    now = now.replace(microsecond=0)
    timed = replace(new, lastProbeTime=now, lastTransitionTime=now, lastUpdateTime=None)
    for place, old in enumerate(status.conditions):
        if old.type == new.type:
            if (old.status, old.reason) == (new.status, new.reason):
                return status
            return replace(status, conditions=[*status.conditions[:place], timed, *status.conditions[place + 1 :]])
    return replace(status, conditions=[*status.conditions, timed])
