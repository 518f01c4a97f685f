"""Keeps the PersistentVolumeClaim of a storage: created once, never again, and never taken from others."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import STORAGE_UID
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import STORAGE_CLAIM_LOST, STORAGE_INVALID_SPEC, STORAGE_PVC_SYNC_FAILED
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.resources.claim import new_claim, repaired_claim, wanted_size
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.readiness import NAME_CONFLICT_SECONDS, Blocked, Readiness, invalid, reported_as
from gpu_runtime.kube.child_writer import DRIFT_REPAIRED, REPAIRS, ChildWriter
from gpu_runtime.kube.children import Change
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import AlreadyExists, NotFound, RetryAfter

STALE_SECONDS = 1.0


class ClaimDeleted(Blocked):
    """Somebody deleted the claim. It is never created again, because a new one would be empty."""

    def __init__(self, message: str) -> None:
        super().__init__(Readiness("failed", STORAGE_CLAIM_LOST, message))


@dataclass(frozen=True)
class ClaimKeeper:
    """Finds and writes the claim of a storage."""

    client: Client
    caches: Caches
    children: ChildWriter[GPUStorage]
    settings: ControllerManagerSettings

    async def find(self, storage: GPUStorage) -> PersistentVolumeClaim | None:
        """The storage's own claim. If the cache lacks a claim that the status names, a live read decides."""
        found = self.caches.claims.get(storage.metadata.key)
        if found is None and storage.status.claimName:
            try:
                found = await self.client.get(CLAIMS, storage.metadata.key)
            except NotFound:
                return None
        if found is None or self.children.children.owns(storage.metadata, found.metadata):
            return found
        if not storage.status.claimName:
            return None
        message = (
            f"PersistentVolumeClaim {found.metadata.name} no longer belongs to this storage: its annotation "
            f"{STORAGE_UID} is not {storage.metadata.uid}"
        )
        lost = Readiness("failed", STORAGE_CLAIM_LOST, message)
        raise Blocked(lost, seconds=NAME_CONFLICT_SECONDS)  # no watch shows changes of a claim without our label

    async def ensure(self, storage: GPUStorage, found: PersistentVolumeClaim | None) -> PersistentVolumeClaim:
        """The claim after this reconcile. `found` is what `find` returned."""
        if found is None and storage.status.claimName:
            raise ClaimDeleted(
                f"PersistentVolumeClaim {storage.status.claimName} was deleted, and its data with it: delete the "
                "storage and create it again"
            )
        if found is not None and found.is_being_deleted:
            raise ClaimDeleted(
                f"somebody deleted PersistentVolumeClaim {found.metadata.name}, which cannot be undone: its data is "
                "still there until the storage is deleted, but no new pod can mount it"
            )
        with reported_as(STORAGE_PVC_SYNC_FAILED):
            if found is not None:
                return await self._repair(storage, found)
            return await self._create(storage, size_of(storage))

    async def _create(self, storage: GPUStorage, size: Quantity) -> PersistentVolumeClaim:
        await self._check_new(storage)
        try:
            desired = new_claim(storage, size, self.settings)
            return await self.children.create(storage, CLAIMS, desired, self.caches.claims)
        except AlreadyExists:
            return await self._repair(storage, await self.client.get(CLAIMS, storage.metadata.key))

    async def _check_new(self, storage: GPUStorage) -> None:
        """Raises RetryAfter if the cache is behind: the storage may have had a claim, and a new one would be empty."""
        try:
            live = await self.client.get(GPU_STORAGES, storage.metadata.key)
        except NotFound:
            live = None
        if live is None or live.metadata.uid != storage.metadata.uid or live.status.claimName:
            raise RetryAfter(STALE_SECONDS, f"GPUStorage {storage.metadata.key}: the cache is behind the server")

    async def _repair(self, storage: GPUStorage, live: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Puts labels, annotations and the finalizer back, whoever removed them."""
        written = await self.children.children.ensure(CLAIMS, repaired_claim(storage, live), live)
        recorder = self.children.recorder
        if written.change is Change.CHANGED and storage.status.claimName and recorder is not None:
            message = f"{CLAIMS.kind} {live.metadata.name} {REPAIRS[Change.CHANGED]}"
            recorder.event(GPU_STORAGES, storage, DRIFT_REPAIRED, message)
        return self.caches.claims.wrote(written.object)


def size_of(storage: GPUStorage) -> Quantity:
    """The size in the spec. Raises Blocked if it is not a valid size."""
    try:
        return wanted_size(storage)
    except ValueError as error:
        raise invalid(str(error), STORAGE_INVALID_SPEC) from error
