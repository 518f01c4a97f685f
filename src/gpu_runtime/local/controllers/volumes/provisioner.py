"""The external provisioner and resizer: makes, grows and removes the folders and volumes of its classes' claims.

It binds nothing: that is left to the volume controller of the cluster, which may be a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.kube.controller import Result, Source, mapped, primary
from gpu_runtime.kube.errors import AlreadyExists, KubeError, NotFound
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.scheduler.claims import SELECTED_NODE
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.controllers.volumes import matching
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER, volume_name
from gpu_runtime.local.kinds.storage import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    PersistentVolume,
    StorageClass,
)
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.removal import remove_tree

RESIZING = "Resizing"


def _class(name: str, mode: str = "Immediate", notes: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "annotations": notes or {}}
    fields = {"provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
    return {"metadata": metadata, **fields, "allowVolumeExpansion": True}


CLASSES = (
    _class("rook-ceph-block"),  # the product's default: its manifests move unchanged
    _class("standard", notes={"storageclass.kubernetes.io/is-default-class": "true"}),
    _class("local", WAIT_FOR_FIRST_CONSUMER),
)


async def ensure_classes(client: Client) -> None:
    """Creates what is missing; what is there stays as it is."""
    for each in CLASSES:
        with suppress(AlreadyExists):
            await client.create(STORAGE_CLASSES, each)


class Provisioner:
    """Runs with the controllers of `manager`; each volume is a folder of the same name under `folder`."""

    def __init__(self, manager: Manager, recorder: Recorder, folder: Path) -> None:
        self._client: Client = manager.client
        self._recorder = recorder
        self._folder = folder
        self._claims = claims = manager.cache(Query(CLAIMS))
        self._volumes = volumes = manager.cache(Query(VOLUMES))
        self._classes = classes = manager.cache(Query(STORAGE_CLASSES))

        def waiting(_: Object) -> Iterable[Key]:
            return [one.metadata.key for one in claims if not one.spec.volumeName]

        def claim_of(volume: PersistentVolume) -> Iterable[Key]:
            reference = volume.spec.claimRef
            return (Key(reference.namespace, reference.name),) if reference is not None else ()

        sources: list[Source[Any]] = [primary(claims), mapped(volumes, claim_of), mapped(classes, waiting)]
        manager.controller("provisioner", self.reconcile_claim, sources)
        manager.controller("deleter", self.reconcile_volume, [primary(volumes)])

    async def reconcile_claim(self, key: Key) -> Result:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletionTimestamp is not None:
            return Result()
        storage_class = self._classes.get(Key("", claim.class_name))
        if claim.spec.volumeName:
            await self._resize(claim, storage_class)
        elif storage_class is not None and self._is_due(claim, storage_class):
            await self._provision(claim, storage_class)
        return Result()

    def _is_due(self, claim: Claim, storage_class: StorageClass) -> bool:
        """Whether the volume controller asks this provisioner for a volume that does not exist yet."""
        notes = claim.metadata.annotations
        placed = storage_class.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER or SELECTED_NODE in notes
        asked = any(notes.get(each) == PROVISIONER for each in matching.PROVISIONER_NOTES)
        return placed and asked and self._volumes.get(Key("", volume_name(claim))) is None

    async def _provision(self, claim: Claim, storage_class: StorageClass) -> None:
        key, folder = claim.metadata.key, self._folder / volume_name(claim)
        self._say(claim, "Provisioning", f'External provisioner is provisioning volume for claim "{key}"')
        try:
            if problem := unservable(claim, storage_class):
                raise KubeError(problem)
            await asyncio.to_thread(_make_folder, folder)
            await self._client.create(VOLUMES, matching.new_volume(claim, storage_class, str(folder)))
        except AlreadyExists:
            return
        except (OSError, KubeError) as error:
            said = f'failed to provision volume with StorageClass "{claim.class_name}": {error}'
            self._say(claim, "ProvisioningFailed", said, warning=True)
            raise KubeError(said) from error
        self._say(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {volume_name(claim)}")

    async def _resize(self, claim: Claim, storage_class: StorageClass | None) -> None:
        """First the claim says that its volume grows, and the next pass grows it."""
        volume, status = self._volumes.get(Key("", claim.spec.volumeName)), claim.status
        if volume is None or not _is_ours(volume) or not matching.belongs_to(volume, claim) or status.phase != "Bound":
            return
        others = [one for one in status.conditions if one.type != RESIZING]
        if not claim.wants_more(status.capacity):
            after = replace(status, conditions=others)  # of a request that was taken back
            await write_status(self._client, CLAIMS, claim, status, after)
        elif others == status.conditions:
            now = SYSTEM_CLOCK.now().replace(microsecond=0)
            begun = Condition(type=RESIZING, status="True", lastTransitionTime=now)
            after = replace(status, conditions=[*others, begun])
            await write_status(self._client, CLAIMS, claim, status, after)
            self._say(claim, RESIZING, f"External resizer is resizing volume {volume.metadata.name}")
        elif problem := unservable(claim, storage_class):
            said = f'resize volume "{volume.metadata.name}" by resizer "{PROVISIONER}" failed: {problem}'
            self._say(claim, "VolumeResizeFailed", said, warning=True)
            raise KubeError(said)
        else:
            if claim.wants_more(volume.spec.capacity):
                patch = {"metadata": identity(volume.metadata), "spec": {"capacity": {"storage": claim.requested}}}
                volume = await self._client.patch(VOLUMES, volume.metadata.key, patch)
            after = replace(status, conditions=others, capacity=volume.spec.capacity)
            await write_status(self._client, CLAIMS, claim, status, after)
            self._say(claim, "VolumeResizeSuccessful", "Resize volume succeeded")

    async def reconcile_volume(self, key: Key) -> Result:
        """Removes a volume with its folder after the volume controller has released it."""
        cached = self._volumes.get(key)
        if cached is None or not _is_removable(cached):
            return Result()
        try:
            # A live read: somebody may just have decided to keep the data.
            volume = await self._client.get(VOLUMES, key)
            if not _is_removable(volume):
                return Result()
            if volume.spec.hostPath is not None and Path(volume.spec.hostPath.path) == self._folder / key.name:
                await asyncio.to_thread(remove_folder, self._folder / key.name)
            if volume.metadata.deletionTimestamp is None:
                await self._client.delete(VOLUMES, key, uid=volume.metadata.uid)
            else:
                await remove_finalizer(self._client, VOLUMES, volume.metadata, matching.FINALIZER)
        except NotFound:
            return Result()
        except OSError as error:
            self._recorder.event(VOLUMES, cached, "VolumeFailedDelete", str(error), type="Warning")
            raise KubeError(str(error)) from error
        return Result()

    def _say(self, claim: Claim, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.event(CLAIMS, claim, reason, message, type="Warning" if warning else "Normal")


def unservable(claim: Claim, storage_class: StorageClass | None) -> str:
    """Why the claim cannot be served. A class may set `parameters.maximumSize`, as a full storage system would."""
    if claim.spec.volumeMode == "Block":
        return f"{PROVISIONER} does not support block volume provisioning"
    most = storage_class.parameters.get("maximumSize") if storage_class is not None else None
    if most and claim.wants_more({"storage": most}):
        return f"{claim.requested} is more than the {most} that class {claim.class_name} can provide"
    return ""


def _is_ours(volume: PersistentVolume) -> bool:
    return volume.metadata.annotations.get(matching.PROVISIONED_BY) == PROVISIONER


def _is_removable(volume: PersistentVolume) -> bool:
    deletes = volume.spec.persistentVolumeReclaimPolicy == "Delete"
    return _is_ours(volume) and deletes and volume.status.phase == "Released"


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # whoever the pod's processes run as must be able to write


def remove_folder(path: Path) -> None:
    """Removes the folder; OSError when a part of it is left: its volume must not be deleted before."""
    remove_tree(path)
    if path.exists():
        raise OSError(f"{path} cannot be removed")
