"""Deletes the data of a storage that is being deleted, once nobody holds it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import ACCESSOR_READY, PREPARED, STORAGE_DELETING
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.gpustorage.phases import Accessor, Prepare
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
"""How often to look whether the rest is gone: of a claim without our label, for example, no event tells."""


@dataclass(frozen=True)
class Deletion:
    """Finishes the finalizer of a storage. Nobody new gets a storage that is being deleted, so "free" stays true."""

    client: Client
    children: Children
    finalizer: Finalizer[GPUStorage]
    status: ReadyStatus[GPUStorage]
    prepare: Prepare
    accessor: Accessor
    clock: Clock

    async def finish(self, storage: GPUStorage, waits_for: str = "") -> Result:
        if self.finalizer.name not in storage.metadata.finalizers:
            return Result()  # it waits for somebody else's finalizer
        if (holder := attachment_of(storage.metadata)) is not None:
            left = f" ({waits_for})" if waits_for else ""
            await self._say(storage, f"waiting until {holder} no longer holds it{left}; until then its data stays")
            return Result()
        waits: list[str] = []

        async def cleanup(storage: GPUStorage) -> bool:
            waits.extend(await self._left(storage))
            return not waits

        if await self.finalizer.finish(storage, cleanup):
            return Result()
        if (delay := self._delay(storage)) > 0:
            return Result(delay)
        await self._say(storage, f"waiting until {' and '.join(waits)} gone")
        return Result(LOOK_SECONDS)

    async def _left(self, storage: GPUStorage) -> list[str]:
        """Deletes what belongs to the storage, its claim last. Returns what is left, in words."""
        makers = [
            words
            for words, phase in (
                ("the pod that fills it is", self.prepare),
                ("the pod that serves its files is", self.accessor),
            )
            if not await phase.end(storage)
        ]
        return makers or await self._claim_left(storage)

    async def _claim_left(self, storage: GPUStorage) -> list[str]:
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
        return [f"PersistentVolumeClaim {live.metadata.name}{kept} is"]

    def _delay(self, storage: GPUStorage) -> float:
        """How long the status can wait: most claims are gone within 2 s, and the write is saved."""
        since = storage.metadata.deletionTimestamp
        age = (self.clock.now() - since).total_seconds() if since is not None else FIRST_SECONDS
        return FIRST_SECONDS - age if -1.0 < age < FIRST_SECONDS else 0.0

    async def _say(self, storage: GPUStorage, message: str) -> None:
        """Only the Ready condition and the phase change: the data and the holder's mount are as they were."""
        outcome = Readiness("progressing", STORAGE_DELETING, message)
        status = structs.replace(
            storage.status,
            phase=PHASES[outcome.state],
            attachedTo=attachment_of(storage.metadata),
            observedGeneration=storage.metadata.generation,
        )
        kept = [each for each in storage.status.conditions if each.type in (PREPARED, ACCESSOR_READY)]
        await self.status.write(storage, status, outcome, conditions=kept, can_wait=False)
