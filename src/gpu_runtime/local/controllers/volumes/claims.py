"""Drives one PersistentVolumeClaim: wait, provision, bind, grow, and let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import AlreadyExists, NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.scheduler.claims import SELECTED_NODE
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.controllers.volumes.matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONER,
    PROVISIONER_NOTES,
    belongs_to,
    default_class,
    find_volume,
    new_volume,
    volume_name,
)
from gpu_runtime.local.kinds.pods import PODS
from gpu_runtime.local.kinds.storage import (
    CLAIMS,
    VOLUMES,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    ClaimStatus,
    PersistentVolume,
    StorageClass,
)

PROTECTION = "kubernetes.io/pvc-protection"


class ClaimReconciler:
    """Each step is one write that the next pass finds done."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        folder: Path,
        claims: Store[Claim],
        volumes: Store[PersistentVolume],
        classes: Store[StorageClass],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._folder = folder
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._told: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            self._told.pop(key, None)
            return Result()
        if claim.metadata.deletionTimestamp is not None:
            await self._let_go(claim)
            return Result()
        if BIND_COMPLETED in claim.metadata.annotations:
            await self._follow(claim)
            return Result()
        volume = find_volume(claim, self._volumes)
        if volume is not None:
            await self._bind(claim, volume)
        elif claim.spec.volumeName:
            await self._status(claim, ClaimStatus(phase="Pending"))
        else:
            await self._provision(claim)
        return Result()

    async def _provision(self, claim: Claim) -> None:
        if claim.spec.storageClassName is None and (found := default_class(self._classes)) is not None:
            patch = {"metadata": identity(claim.metadata), "spec": {"storageClassName": found.metadata.name}}
            await self._client.patch(CLAIMS, claim.metadata.key, patch)
            return
        await self._status(claim, ClaimStatus(phase="Pending"))
        storage_class = self._classes.get(Key("", claim.class_name)) if claim.class_name else None
        if storage_class is None:
            if claim.class_name:
                self._say(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{claim.class_name}" not found')
            else:
                said = "no persistent volumes available for this claim and no storage class is set"
                self._say(claim, "FailedBinding", said, warning=False)
            return
        waits = storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
        if waits and SELECTED_NODE not in claim.metadata.annotations:
            said = "waiting for first consumer to be created before binding"
            self._say(claim, "WaitForFirstConsumer", said, warning=False)
            return
        if storage_class.provisioner != PROVISIONER:
            said = f"no volume plugin matched name: {storage_class.provisioner}"
            self._say(claim, "ProvisioningFailed", said)
            return
        await self._make(claim, storage_class)

    async def _make(self, claim: Claim, storage_class: StorageClass) -> None:
        notes = dict.fromkeys(PROVISIONER_NOTES, PROVISIONER)
        if not notes.items() <= claim.metadata.annotations.items():
            patch = {"metadata": {**identity(claim.metadata), "annotations": notes}}
            claim = await self._client.patch(CLAIMS, claim.metadata.key, patch)
        folder = self._folder / volume_name(claim)
        await asyncio.to_thread(_make_folder, folder)
        try:
            volume = await self._client.create(VOLUMES, new_volume(claim, storage_class, str(folder)))
        except AlreadyExists:
            volume = await self._client.get(VOLUMES, Key("", volume_name(claim)))
        else:
            said = f"Successfully provisioned volume {volume.metadata.name} using {PROVISIONER}"
            self._say(claim, "ProvisioningSucceeded", said, warning=False)
        await self._bind(claim, volume)

    async def _bind(self, claim: Claim, volume: PersistentVolume) -> None:
        """The volume is kept for the claim first: two claims may want it, and only one write can win."""
        reference = volume.spec.claimRef
        if reference is None or reference.uid != claim.metadata.uid:
            wanted = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            }
            notes = {BOUND_BY_CONTROLLER: "yes"} if reference is None else {}
            patch = {
                "metadata": {**identity(volume.metadata), "annotations": notes},
                "spec": {"claimRef": wanted},
            }
            volume = await self._client.patch(VOLUMES, volume.metadata.key, patch)
        notes = {BIND_COMPLETED: "yes"}
        if claim.spec.volumeName != volume.metadata.name:
            notes[BOUND_BY_CONTROLLER] = "yes"
        patch = {
            "metadata": {**identity(claim.metadata), "annotations": notes},
            "spec": {"volumeName": volume.metadata.name},
        }
        claim = await self._client.patch(CLAIMS, claim.metadata.key, patch)
        await self._status(claim, _bound(volume))

    async def _follow(self, claim: Claim) -> None:
        """A bound claim shows what its volume is, and grows with what was asked for."""
        volume = self._volumes.get(Key("", claim.spec.volumeName))
        if volume is None:
            volume = await self._live_volume(claim)
        if volume is None or not belongs_to(volume, claim):
            said = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            self._say(claim, "ClaimLost", said)
            await self._status(claim, replace(claim.status, phase="Lost", capacity={}, accessModes=[]))
            return
        if volume.spec.hostPath is not None and self._wants_more(claim, volume):
            patch = {"metadata": identity(volume.metadata), "spec": {"capacity": {"storage": claim.requested}}}
            volume = await self._client.patch(VOLUMES, volume.metadata.key, patch)
            self._say(claim, "VolumeResizeSuccessful", "Resize volume succeeded", warning=False)
        await self._status(claim, _bound(volume))

    async def _live_volume(self, claim: Claim) -> PersistentVolume | None:
        try:
            return await self._client.get(VOLUMES, Key("", claim.spec.volumeName))
        except NotFound:
            return None

    def _wants_more(self, claim: Claim, volume: PersistentVolume) -> bool:
        storage_class = self._classes.get(Key("", claim.class_name))
        if storage_class is None or not storage_class.allowVolumeExpansion:
            return False
        return Quantity.parse(claim.requested) > Quantity.parse(volume.spec.capacity.get("storage", "0"))

    async def _let_go(self, claim: Claim) -> None:
        if PROTECTION not in claim.metadata.finalizers:
            return
        # A live read: a pod that the cache does not show yet must not lose its volume.
        pods = await self._client.list(Query(PODS, namespace=claim.metadata.namespace))
        if any(claim.metadata.name in pod.claims and not pod.finished for pod in pods.items):
            return
        await remove_finalizer(self._client, CLAIMS, claim.metadata, PROTECTION)

    async def _status(self, claim: Claim, status: ClaimStatus) -> None:
        after = replace(status, conditions=claim.status.conditions)
        await write_status(self._client, CLAIMS, claim, claim.status, after)

    def _say(self, claim: Claim, reason: str, message: str, *, warning: bool = True) -> None:
        if self._told.get(claim.metadata.key) != message:
            self._told[claim.metadata.key] = message
            self._recorder.event(CLAIMS, claim, reason, message, type="Warning" if warning else "Normal")


def _bound(volume: PersistentVolume) -> ClaimStatus:
    return ClaimStatus(phase="Bound", accessModes=volume.spec.accessModes, capacity=volume.spec.capacity)


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # whoever the pod's processes run as must be able to write
