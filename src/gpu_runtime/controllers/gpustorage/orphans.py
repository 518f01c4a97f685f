"""Claims whose storage is gone: a create request came late, or a person removed the finalizer of the storage."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import structlog
from msgspec import Struct

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.resources.claim import OWNER
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.finalizer import remove_finalizers


class StorageIdentity(Struct, frozen=True):
    """The identity of a storage. A storage whose spec cannot be read still exists, so the spec is not decoded."""

    metadata: ObjectMeta


@dataclass(frozen=True)
class OrphanedClaims:
    """Deletes claims without a storage. A claim that may hold data is kept, and the log names it."""

    client: Client
    caches: Caches

    async def release(self, key: Key) -> bool:
        """Whether the claim has no storage and was released. Its deletion triggers another reconcile of the key."""
        claim = self.caches.claims.get(key)
        if claim is None or not await self._is_orphan(claim):
            return False
        if claim.is_being_deleted:
            # A person deleted the claim or its namespace. Without a storage, nobody else removes our finalizer.
            await remove_finalizers(self.client, CLAIMS, claim, [CLAIM_FINALIZER])
            return True
        if _may_hold_data(claim):
            owner = OWNER.owner_of(claim.metadata)
            structlog.get_logger("storage").warning(
                "a claim has no storage any more and may hold data: delete it by hand if nobody needs it",
                claim=str(key),
                storage_uid=owner.uid if owner is not None else "",
            )
            return False
        left = await remove_finalizers(self.client, CLAIMS, claim, [CLAIM_FINALIZER])
        if left is not None:
            meta = left.metadata
            with suppress(NotFound):
                # By version: if the claim was bound in the meantime, the delete fails and the claim stays.
                await self.client.delete(CLAIMS, key, uid=meta.uid, resource_version=meta.resourceVersion)
        return True

    async def _is_orphan(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a live read shows no storage with the UID that the claim names. UIDs are never reused."""
        owner, key = OWNER.owner_of(claim.metadata), claim.metadata.key
        if owner is None:
            return False
        cached = self.caches.storages.get(key)
        if cached is not None and cached.metadata.uid == owner.uid:
            return False
        try:
            live = await self.client.get(GPU_STORAGES.view(StorageIdentity), key)
        except NotFound:
            return True
        return live.metadata.uid != owner.uid


def _may_hold_data(claim: PersistentVolumeClaim) -> bool:
    owner = OWNER.owner_of(claim.metadata)
    copied = (
        owner is None or owner.name != claim.metadata.name
    )  # a person copied one of our claims with its annotations
    return copied or bool(claim.spec.volumeName) or claim.status.phase not in ("", "Pending")
