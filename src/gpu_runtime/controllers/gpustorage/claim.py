"""Keeps the PersistentVolumeClaim of a storage: created once, never again, and never taken from others."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import STORAGE_CLAIM_LOST, STORAGE_INVALID_SPEC, STORAGE_PVC_SYNC_FAILED
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.resources.claim import claim, wanted_size
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.readiness import Blocked, Readiness, invalid, reported_as
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import AlreadyExists, NotFound, RetryAfter

STALE_SECONDS = 1.0


@dataclass(frozen=True)
class ClaimKeeper:
    """Finds and writes the claim of a storage."""

    client: Client
    caches: Caches
    children: ChildWriter[GPUStorage]
    settings: ControllerManagerSettings

    async def find(self, storage: GPUStorage) -> PersistentVolumeClaim | None:
        """The storage's own claim. That a recorded claim is gone is decided by a live read only."""
        cached = self.caches.claims.get(storage.metadata.key)
        if cached is None and storage.status.claimName:
            try:
                cached = await self.client.get(CLAIMS, storage.metadata.key)
            except NotFound:
                return None
        ours = cached is not None and self.children.children.owns(storage.metadata, cached.metadata)
        return cached if ours else None

    async def ensure(self, storage: GPUStorage, live: PersistentVolumeClaim | None) -> PersistentVolumeClaim:
        """The claim after this reconcile. `live` is what `find` returned."""
        if live is None and storage.status.claimName:
            raise _lost(f"PersistentVolumeClaim {storage.status.claimName} was deleted, and its data with it")
        if live is not None and live.is_being_deleted:
            raise _lost(
                f"somebody deleted PersistentVolumeClaim {live.metadata.name}: its data is still there, but nobody can "
                "mount it; it goes with the storage"
            )
        size = _size(storage)
        with reported_as(STORAGE_PVC_SYNC_FAILED):
            return await (self._create(storage, size) if live is None else self._repair(storage, size, live))

    async def _create(self, storage: GPUStorage, size: Quantity) -> PersistentVolumeClaim:
        await self._check_new(storage)
        try:
            desired = claim(storage, size, self.settings)
            return await self.children.create(storage, CLAIMS, desired, self.caches.claims)
        except AlreadyExists:
            live = await self.client.get(CLAIMS, storage.metadata.key)
            return await self._repair(storage, size, live)

    async def _check_new(self, storage: GPUStorage) -> None:
        """Raises RetryAfter if the storage has a claim already. A cache that is behind must not make an empty one."""
        try:
            live = await self.client.get(GPU_STORAGES, storage.metadata.key)
        except NotFound:
            live = None
        if live is None or live.metadata.uid != storage.metadata.uid or live.status.claimName:
            raise RetryAfter(STALE_SECONDS, f"GPUStorage {storage.metadata.key}: the cache is behind the server")

    async def _repair(self, storage: GPUStorage, size: Quantity, live: PersistentVolumeClaim) -> PersistentVolumeClaim:
        desired = claim(storage, size, self.settings, live)
        written = await self.children.children.ensure(CLAIMS, desired, live)
        return self.caches.claims.wrote(written.object)


def _lost(message: str) -> Blocked:
    """Blocked for good: a claim that is made anew would be empty."""
    return Blocked(Readiness("failed", STORAGE_CLAIM_LOST, message))


def _size(storage: GPUStorage) -> Quantity:
    try:
        return wanted_size(storage)
    except ValueError as error:
        raise invalid(str(error), STORAGE_INVALID_SPEC) from error
