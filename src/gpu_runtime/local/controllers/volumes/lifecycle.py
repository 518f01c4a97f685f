"""Drives one PersistentVolume: available, bound, released, and gone with its folder where its class says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.controllers.volumes.matching import PROVISIONED_BY, PROVISIONER, belongs_to
from gpu_runtime.local.kinds.storage import CLAIMS, VOLUMES, Claim, PersistentVolume, VolumeStatus
from gpu_runtime.local.removal import remove_tree

PROTECTION = "kubernetes.io/pv-protection"


def remove_folder(path: Path) -> None:
    """Removes the folder; OSError when a part of it is left: its volume must not be deleted before."""
    remove_tree(path)
    if path.exists():
        raise OSError(f"{path} cannot be removed")


class VolumeReconciler:
    """Deletes a folder only when it is one of ours and a live read shows that its claim is gone."""

    def __init__(self, client: Client, folder: Path, volumes: Store[PersistentVolume], claims: Store[Claim]) -> None:
        self._client = client
        self._folder = folder
        self._volumes = volumes
        self._claims = claims

    async def reconcile(self, key: Key) -> Result:
        volume = self._volumes.get(key)
        if volume is None:
            return Result()
        claim = await self._claim_of(volume)
        if volume.metadata.deletionTimestamp is not None:
            if claim is None:
                await remove_finalizer(self._client, VOLUMES, volume.metadata, PROTECTION)
            return Result()
        phase = self._phase(volume, claim)
        await write_status(self._client, VOLUMES, volume, volume.status, VolumeStatus(phase=phase))
        if phase == "Released" and volume.spec.persistentVolumeReclaimPolicy == "Delete":
            await self._reclaim(volume)
        return Result()

    def _phase(self, volume: PersistentVolume, claim: Claim | None) -> str:
        if volume.spec.claimRef is None or (not volume.spec.claimRef.uid and claim is None):
            return "Available"
        return "Bound" if claim is not None else "Released"

    async def _claim_of(self, volume: PersistentVolume) -> Claim | None:
        reference = volume.spec.claimRef
        if reference is None:
            return None
        key = Key(reference.namespace, reference.name)
        claim = self._claims.get(key)
        if claim is None or not belongs_to(volume, claim):
            try:
                claim = await self._client.get(CLAIMS, key)
            except NotFound:
                return None
        return claim if belongs_to(volume, claim) else None

    async def _reclaim(self, volume: PersistentVolume) -> None:
        if volume.metadata.annotations.get(PROVISIONED_BY) != PROVISIONER:
            return
        path = Path(volume.spec.hostPath.path) if volume.spec.hostPath is not None else None
        if path is not None and path == self._folder / volume.metadata.name:
            await asyncio.to_thread(remove_folder, path)
        try:
            await self._client.delete(VOLUMES, volume.metadata.key, uid=volume.metadata.uid)
        except NotFound:
            return
