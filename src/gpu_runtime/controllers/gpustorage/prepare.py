"""Fills the volume of a storage before its first use, with a Job for each attempt.

An attempt goes through these steps, each in a reconcile of its own, and a crash between any two of them is harmless:

1. The Job is created suspended, under a name that only this attempt has.
2. The status names the Job. From now on the attempt counts: if the Job is gone later, the attempt has failed.
3. The source of a copy is held, and the Job is resumed on the version that was seen.
4. The Job ends, and the status says how. This result is final for the attempt.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, Prepare
from gpu_runtime.api.v1alpha1.reasons import STORAGE_PREPARE_PENDING
from gpu_runtime.api.v1alpha1.rules import prepare_errors
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import BY_UID, Caches
from gpu_runtime.controllers.child_kinds.jobs import JOBS, Job
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim
from gpu_runtime.controllers.child_kinds.workloads import PODS, PodView
from gpu_runtime.controllers.gpustorage.copy_progress import EVERY_SECONDS, CopyProgress
from gpu_runtime.controllers.gpustorage.copy_source import CopySource, SourceBusy, SourceMissing
from gpu_runtime.controllers.gpustorage.phases import Prepared
from gpu_runtime.controllers.gpustorage.prepare_status import (
    Attempt,
    impossible,
    invalid,
    observed,
    pending,
    settled,
    vanished,
)
from gpu_runtime.controllers.gpustorage.resources.prepare_job import prepare_job, prepare_policy
from gpu_runtime.controllers.labels import CONTROLLED_BY, is_controlled_by
from gpu_runtime.controllers.readiness import Blocked, in_words, reported_as
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import check_ownership, identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.errors import AlreadyExists, NotFound, Unreadable
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)
ENDED = ("Succeeded", "Failed")
REFUSED_SECONDS = 15.0


class StillWorking(Exception):
    """A pod of an earlier attempt may still write to the volume."""


@dataclass(frozen=True)
class StoragePrepare:
    """Reads caches. Reads live before it starts something that cannot be undone."""

    client: Client
    caches: Caches
    children: ChildWriter[GPUStorage]
    source: CopySource
    progress: CopyProgress
    settings: ControllerManagerSettings

    async def run(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Prepared:
        """Takes the next step of the attempt. `claim` is the claim that a pod can mount now; None if there is none."""
        if (final := settled(storage)) is not None:
            return final
        prepare, attempt = storage.spec.prepare, Attempt.of(storage)
        assert prepare is not None
        if problems := in_words(prepare_errors(prepare, storage.metadata.name)):
            return invalid(storage, problems)
        try:
            job = await self._find(storage, attempt)
            if job is None:
                return await self._create(storage, prepare, attempt, claim)
            attempt = replace(attempt, uid=job.metadata.uid)
            if job.spec.suspend and not job.is_over:
                if not attempt.is_recorded:
                    return pending(storage, attempt, "about to begin")
                if attempt.ran:
                    return vanished(storage, attempt)
                if claim is None:
                    return pending(storage, attempt, "waiting for its volume")
                job = await self._resume(storage, prepare, job)
        except (StillWorking, SourceBusy, SourceMissing) as problem:
            return pending(storage, attempt, str(problem))
        return await self._observe(storage, prepare, attempt, job)

    async def give_up(self, storage: GPUStorage) -> Prepared:
        """Ends the attempt of a storage whose claim was deleted: its pod could only wait, and hold its source."""
        if (final := settled(storage)) is not None:
            return final
        await self.end(storage)
        return impossible(storage, f"PersistentVolumeClaim {storage.metadata.name} was deleted: nothing can fill it")

    async def end(self, storage: GPUStorage) -> bool:
        """Deletes the Jobs of the storage; True when live reads show no Job and no running pod."""
        if storage.spec.prepare is None:
            return True
        self.progress.forget(storage.metadata.uid)
        for job in await self._list(JOBS, storage):
            await self._delete(job.metadata)
        return not await self._list(JOBS, storage) and not await self._working_pods(storage)

    async def _find(self, storage: GPUStorage, attempt: Attempt) -> Job | None:
        """The Job of the attempt. If the cache lacks a Job that the status names, a live read decides."""
        key = Key(storage.metadata.namespace, attempt.job)
        job = self.caches.jobs.get(key)
        if job is None and attempt.is_recorded:
            with suppress(NotFound):
                job = await self.client.get(JOBS, key)
        if job is None or not is_controlled_by(job.metadata, storage.metadata):
            return None
        # After somebody deleted the Job, a late create request can make another one of the same name.
        return job if job.metadata.uid == attempt.uid or not attempt.is_recorded else None

    async def _create(
        self, storage: GPUStorage, prepare: Prepare, attempt: Attempt, claim: PersistentVolumeClaim | None
    ) -> Prepared:
        if attempt.is_recorded:
            return vanished(storage, attempt)
        if claim is None:
            return pending(storage, None, "waiting for its volume")
        try:
            if prepare.fromStorageName is not None:
                await self.source.look(storage, prepare.fromStorageName)
        except SourceBusy as busy:
            return pending(storage, None, str(busy))
        except SourceMissing as missing:
            return invalid(storage, [str(missing)])
        policy = prepare_policy(storage, prepare, self.settings)
        desired = prepare_job(storage, prepare, attempt.job, self.settings)
        try:
            with reported_as(STORAGE_PREPARE_PENDING):
                await self.children.ensure(storage, NETWORK_POLICIES, policy, self.caches.policies)
                made = await self._make(storage, desired)
        except Blocked as blocked:
            return pending(storage, None, str(blocked), blocked.seconds or REFUSED_SECONDS)
        return pending(storage, replace(attempt, uid=made.metadata.uid), "about to begin")

    async def _make(self, storage: GPUStorage, desired: Job) -> Job:
        for earlier in self.caches.jobs.find(BY_UID, storage.metadata.uid):
            # A Job that is not over may be a later attempt: the cache of storages may be behind.
            if earlier.is_over:
                await self._delete(earlier.metadata)
        try:
            return await self.children.create(storage, JOBS, desired, self.caches.jobs)
        except AlreadyExists:  # an answer was lost, the cache is behind, or the Job is not ours
            live = await self.client.get(JOBS, desired.metadata.key)
            check_ownership(JOBS, desired, live)
            return self.caches.jobs.wrote(live)

    async def _resume(self, storage: GPUStorage, prepare: Prepare, job: Job) -> Job:
        """Starts the Job that was seen. All checks here read after the Job was read."""
        if earlier := await self._working_pods(storage, but_of=job):
            raise StillWorking(f"pod {earlier[0].metadata.name} of an earlier attempt is still ending")
        if prepare.fromStorageName is not None:
            await self.source.hold(storage, prepare.fromStorageName)
        patch = {"metadata": identity(job.metadata), "spec": {"suspend": False}}
        return self.caches.jobs.wrote(await self.client.patch(JOBS, job.metadata.key, patch))

    async def _observe(self, storage: GPUStorage, prepare: Prepare, attempt: Attempt, job: Job) -> Prepared:
        # Once the Job is over, read live: a cache may not show yet how the pod ended, and the status is final.
        found = await self._list(PODS, storage) if job.is_over else self.caches.pods.find(BY_UID, storage.metadata.uid)
        own = [pod for pod in found if is_controlled_by(pod.metadata, job.metadata)]
        copies = prepare.fromStorageName is not None
        if job.is_over:
            known = await self.progress.read(own[0].metadata.key) if copies and own else None
            self.progress.forget(storage.metadata.uid)
            return observed(storage, attempt, job, own, known)
        running = next((pod for pod in own if pod.status.phase == "Running"), None)
        if not copies or running is None:
            return observed(storage, attempt, job, own, None)
        known = await self.progress.of(storage.metadata.uid, running.metadata.key)
        seen = observed(storage, attempt, job, own, known)
        return Prepared(seen.status, seen.condition, requeue_after=EVERY_SECONDS)

    async def _list(self, resource: Resource[T], storage: GPUStorage) -> list[T]:
        """The Jobs or pods of the storage, live. Raises if one cannot be read: it may be writing to the volume."""
        selector = f"{CONTROLLED_BY}={storage.metadata.uid}"
        listing = await self.client.list(Query(resource, storage.metadata.namespace, labels=selector))
        if listing.skipped:
            raise Unreadable(f"{resource.kind} {listing.skipped[0].key}: {listing.skipped[0].problem}")
        return listing.items

    async def _working_pods(self, storage: GPUStorage, but_of: Job | None = None) -> list[PodView]:
        """Pods of Jobs of this storage that may still write to the volume."""
        return [
            pod
            for pod in await self._list(PODS, storage)
            if (owner := pod.metadata.controller) is not None
            and owner.kind == JOBS.kind
            and pod.status.phase not in ENDED
            and (but_of is None or owner.uid != but_of.metadata.uid)
        ]

    async def _delete(self, job: ObjectMeta) -> None:
        """Deletes the Job and its pods: by default the server leaves the pods of a Job behind."""
        with suppress(NotFound):
            await self.client.delete(JOBS, job.key, uid=job.uid, propagation="Background")
