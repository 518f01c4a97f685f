"""Lets a unit mount its storages if it holds all of them and each can be used now.

The order of the calls makes it safe (docs/storage.md):

1. The caller sees the Deployment.
2. This gate reads the storages live.
3. The caller changes the Deployment on the version that it saw.

The judge of a storage touches the Deployment before it frees the storage, so a change that was decided earlier fails
with Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import FENCE
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to, attachment_of, holds, in_use, new_fence
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import READY, STORAGE_NOT_READY
from gpu_runtime.controllers.gpustorage.accessor import is_out_of_the_way
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS
from gpu_runtime.controllers.readiness import reported_as, waiting
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import NotFound

BEHIND_SECONDS = 1.0
"""How long to wait for a cache that is behind the server. Usually the change itself triggers the next reconcile."""


class _Identity(Struct, frozen=True):
    metadata: ObjectMeta


@dataclass(frozen=True)
class StorageGate:
    """Reads each storage live: the cache may show this unit as the holder of a storage that was freed."""

    client: Client
    clock: Clock
    fence: Callable[[], str] = new_fence

    async def open(self, unit: GPUUnit) -> None:
        """Returns if the unit holds all of its storages and each can be mounted; raises Blocked otherwise.

        A change of a storage triggers the next reconcile of the units that mount it. So a unit that waits writes a
        record once, and never again: each write would trigger it again at once.
        """
        names = sorted(mount.name for mount in unit.spec.storageMounts)
        with reported_as(STORAGE_NOT_READY):
            await self._confirm(unit)
            found = [await self._find(unit, name) for name in names]
        for storage, _ in found:
            _check_usable(storage)
        # A unit whose spec never changed has mounted its storages since it exists, and nobody frees them.
        if unit.metadata.generation > 1:
            with reported_as(STORAGE_NOT_READY):
                for storage in [storage for storage, is_new in found if not is_new]:
                    await self._annotate(storage, {})

    async def _find(self, unit: GPUUnit, name: str) -> tuple[GPUStorage, bool]:
        """The storage, held by this unit, and whether it was reserved just now, as for a unit made with kubectl."""
        try:
            storage = await self.client.get(GPU_STORAGES, Key(unit.metadata.namespace, name))
        except NotFound as error:
            raise waiting(STORAGE_NOT_READY, f"storage {name} does not exist: create it") from error
        holder = attachment_of(storage.metadata)
        if holds(holder, unit.metadata):
            return storage, False
        if holder is not None:
            raise waiting(STORAGE_NOT_READY, in_use(name, holder))
        if storage.metadata.deletionTimestamp is not None:
            raise waiting(STORAGE_NOT_READY, f"storage {name} is being deleted")
        since = self.clock.now().replace(microsecond=0)
        record = attached_to(Attachment(unit=unit.metadata.name, uid=unit.metadata.uid, since=since))
        return await self._annotate(storage, record), True

    async def _confirm(self, unit: GPUUnit) -> None:
        """Raises Blocked unless the cache shows the current spec: the judge decides by the live unit."""
        try:
            live = await self.client.get(GPU_UNITS.view(_Identity), unit.metadata.key)
        except NotFound:
            live = _Identity(metadata=ObjectMeta())
        if (live.metadata.uid, live.metadata.generation) != (unit.metadata.uid, unit.metadata.generation):
            raise waiting(STORAGE_NOT_READY, "the unit has just changed", BEHIND_SECONDS)

    async def _annotate(self, storage: GPUStorage, record: dict[str, str]) -> GPUStorage:
        """Writes the record with a new fence: if the judge is about to free the storage, it gets a Conflict."""
        patch = {"metadata": {**identity(storage.metadata), "annotations": {**record, FENCE: self.fence()}}}
        return await self.client.patch(GPU_STORAGES, storage.metadata.key, patch)


def _check_usable(storage: GPUStorage) -> None:
    """Raises Blocked while the storage cannot be mounted."""
    if not storage.status.mountable:
        raise waiting(STORAGE_NOT_READY, f"storage {storage.metadata.name} is not ready: {_why_not_ready(storage)}")
    if not is_out_of_the_way(storage):
        raise waiting(STORAGE_NOT_READY, f"the pod that serves files of storage {storage.metadata.name} is ending")


def _why_not_ready(storage: GPUStorage) -> str:
    """Why the storage cannot be mounted: the message of its Ready condition."""
    ready = find_condition(storage.status.conditions, READY)
    return ready.message if ready is not None else "its controller has not processed it yet"
