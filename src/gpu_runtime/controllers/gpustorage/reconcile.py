"""Drives one GPUStorage toward its spec."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.gpustorage.accessor import StorageAccessor
from gpu_runtime.controllers.gpustorage.claim import ClaimDeleted, ClaimKeeper, size_of
from gpu_runtime.controllers.gpustorage.deletion import Deletion
from gpu_runtime.controllers.gpustorage.judge import Judge
from gpu_runtime.controllers.gpustorage.orphans import OrphanedClaims
from gpu_runtime.controllers.gpustorage.prepare import StoragePrepare
from gpu_runtime.controllers.gpustorage.provisioning import ProvisioningEvents
from gpu_runtime.controllers.gpustorage.readiness import Observed, readiness, status
from gpu_runtime.controllers.gpustorage.resize import Resize
from gpu_runtime.controllers.readiness import Blocked
from gpu_runtime.controllers.ready_status import ReadyStatus
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import Terminal
from gpu_runtime.kube.finalizer import Finalizer


@dataclass(frozen=True)
class _Claimed:
    """The outcome of the phases about the claim."""

    seen: Observed
    blocked: Blocked | None = None
    requeue_after: float | None = None


@dataclass(frozen=True)
class GPUStorageReconciler:
    """Reads caches; reads live before it decides that something does not exist. Writes only differences."""

    caches: Caches
    finalizer: Finalizer[GPUStorage]
    claim: ClaimKeeper
    events: ProvisioningEvents
    resize: Resize
    prepare: StoragePrepare
    accessor: StorageAccessor
    judge: Judge
    orphans: OrphanedClaims
    deletion: Deletion
    status: ReadyStatus[GPUStorage]

    async def reconcile(self, key: Key) -> Result:
        if await self.orphans.release(key):
            return Result()
        storage = self.caches.storages.get(key)
        if storage is None:
            return Result()
        verdict = await self.judge.judge(storage)
        result = await self._reconcile(verdict.storage, verdict.waits_for)
        return Result(soonest(result.requeue_after, verdict.requeue_after))

    async def _reconcile(self, storage: GPUStorage, waits_for: str) -> Result:
        if storage.metadata.deletionTimestamp is not None:
            return await self.deletion.finish(storage, waits_for, self.caches.claims.get(storage.metadata.key))
        storage = await self.finalizer.add(storage)  # before the first side effect
        claimed = await self._claimed(storage)
        seen = claimed.seen
        seen = replace(seen, provisioning=await self.events.read(seen.claim, seen.storage_class))
        # A claim that is deleted before the status names it is created again. So nothing may be written to its volume
        # until the status names it.
        recorded = bool(storage.status.claimName)
        if isinstance(claimed.blocked, ClaimDeleted):
            seen = replace(seen, prepared=await self.prepare.give_up(storage))
        else:
            seen = replace(seen, prepared=await self.prepare.run(storage, seen.usable_claim if recorded else None))
        seen = replace(seen, accessible=await self.accessor.run(storage, seen.mountable_claim if recorded else None))
        return await self._report(seen, claimed)

    async def _claimed(self, storage: GPUStorage) -> _Claimed:
        """The storage with its claim, and what blocks the claim. A blocked claim can still be mounted."""
        storage_class = self.caches.classes.get(Key("", storage.spec.storageClassName))
        seen = Observed(storage, storage_class=storage_class)
        try:
            seen = replace(seen, claim=await self.claim.find(storage))
            claim = await self.claim.ensure(storage, seen.claim)
            seen = replace(seen, claim=claim)
            resized = await self.resize.grow(storage, claim, size_of(storage), storage_class)
        except Blocked as blocked:
            return _Claimed(replace(seen, blocked=blocked.outcome), blocked)
        return _Claimed(
            replace(seen, claim=resized.claim, resize_refused=resized.refused), requeue_after=resized.requeue_after
        )

    async def _report(self, seen: Observed, claimed: _Claimed) -> Result:
        assert seen.prepared is not None
        assert seen.accessible is not None
        storage, outcome = seen.storage, readiness(seen)
        new = status(seen, outcome)
        delay = await self.status.write(
            storage,
            new,
            outcome,
            child=seen.claim.metadata if seen.claim is not None else None,
            conditions=(seen.prepared.condition, seen.accessible.condition),
            # Only a status that nobody acts on can wait: units start when the storage is mountable, and a prepare
            # starts when the status names the claim.
            can_wait=not new.mountable and storage.spec.prepare is None,
        )
        requeue_after = soonest(
            delay,
            claimed.requeue_after,
            seen.provisioning.requeue_after,
            seen.prepared.requeue_after,
            seen.accessible.requeue_after,
        )
        blocked = claimed.blocked
        if blocked is None or delay is not None or (requeue_after is not None and isinstance(blocked.error, Terminal)):
            return Result(requeue_after)
        return blocked.result()


def soonest(*seconds: float | None) -> float | None:
    """The shortest of the delays that are not None."""
    return min((each for each in seconds if each is not None), default=None)
