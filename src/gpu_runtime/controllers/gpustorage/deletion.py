"""Deletes the data of a storage that is being deleted, once nobody holds it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import ACCESSOR_READY, PREPARED, STORAGE_DELETING
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.accessor import StorageAccessor
from gpu_runtime.controllers.gpustorage.prepare import StoragePrepare
from gpu_runtime.controllers.gpustorage.readiness import PHASES
from gpu_runtime.controllers.readiness import Readiness
from gpu_runtime.controllers.ready_status import FIRST_SECONDS, ReadyStatus
from gpu_runtime.kube.children import Children
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.finalizer import Finalizer, remove_finalizers

LOOK_SECONDS = 15.0
"""How often to check whether everything is gone. A watch does not show it for all objects: a person may have removed
our label from the claim."""


@dataclass(frozen=True)
class Deletion:
    """Does the work of the storage's finalizer. Nobody can reserve a storage that is being deleted: free stays free."""

    client: Client
    children: Children
    finalizer: Finalizer[GPUStorage]
    status: ReadyStatus[GPUStorage]
    prepare: StoragePrepare
    accessor: StorageAccessor
    clock: Clock

    async def finish(self, storage: GPUStorage, waits_for: str, claim: PersistentVolumeClaim | None) -> Result:
        """Deletes the data if nobody holds the storage. `waits_for` says why its holder still holds it."""
        if self.finalizer.name not in storage.metadata.finalizers:
            return Result()  # our work is done: the storage waits for finalizers of others
        if (holder := attachment_of(storage.metadata)) is not None:
            why = f" ({waits_for})" if waits_for else ""
            message = f"waiting until {holder} no longer holds it{why}; until then its data stays"
            if lost := claim is not None and claim.is_being_deleted:
                message += ", but its PersistentVolumeClaim was deleted too: no new pod can mount it"
            await self._report(storage, message, mountable=storage.status.mountable and not lost)
            return Result()
        remaining: list[str] = []

        async def cleanup(storage: GPUStorage) -> bool:
            remaining.extend(await self._remaining(storage))
            return not remaining

        if await self.finalizer.finish(storage, cleanup):
            return Result()
        if (delay := self._delay(storage)) > 0:
            return Result(delay)
        message = f"waiting until {' and '.join(remaining)} {'is' if len(remaining) == 1 else 'are'} gone"
        await self._report(storage, message, mountable=storage.status.mountable)
        return Result(LOOK_SECONDS)

    async def _remaining(self, storage: GPUStorage) -> list[str]:
        """Deletes what belongs to the storage: first all pods, then the claim. Returns what still exists, in words."""
        pods: list[str] = []
        if not await self.prepare.end(storage):
            pods.append("the pod that fills it")
        if not await self.accessor.end(storage):
            pods.append("the pod that serves its files")
        return pods or await self._remaining_claim(storage)

    async def _remaining_claim(self, storage: GPUStorage) -> list[str]:
        try:
            live = await self.client.get(CLAIMS, storage.metadata.key)
            if not self.children.owns(storage.metadata, live.metadata):
                return []
            left = await remove_finalizers(self.client, CLAIMS, live, [CLAIM_FINALIZER])
            if left is not None and await self.children.delete(CLAIMS, storage.metadata, left):
                live = await self.client.get(CLAIMS, storage.metadata.key)
        except NotFound:
            return []
        kept = f" (kept by {', '.join(live.metadata.finalizers)})" if live.metadata.finalizers else ""
        return [f"PersistentVolumeClaim {live.metadata.name}{kept}"]

    def _delay(self, storage: GPUStorage) -> float:
        """How long to wait before the status is written: most claims are gone within 2 s, and the write is saved."""
        since = storage.metadata.deletionTimestamp
        age = (self.clock.now() - since).total_seconds() if since is not None else FIRST_SECONDS
        return FIRST_SECONDS - age if -1.0 < age < FIRST_SECONDS else 0.0

    async def _report(self, storage: GPUStorage, message: str, *, mountable: bool) -> None:
        """Changes the Ready condition, the phase, the holder and `mountable`. The rest of the status is still true."""
        outcome = Readiness("progressing", STORAGE_DELETING, message)
        status = structs.replace(
            storage.status,
            phase=PHASES[outcome.state],
            mountable=mountable,
            attachedTo=attachment_of(storage.metadata),
            observedGeneration=storage.metadata.generation,
        )
        kept = [each for each in storage.status.conditions if each.type in (PREPARED, ACCESSOR_READY)]
        await self.status.write(storage, status, outcome, conditions=kept, can_wait=False)
