"""Reserves storages for a unit, before the spec of the unit mounts them. A storage has at most one holder."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, FENCE, OPERATION_UID
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to, attachment_of, in_use, new_fence
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, StorageMount
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.rest.errors import Clash, Missing, StorageInUse
from gpu_runtime.service.cluster import GPU_STORAGES, Cluster


def held_by_operation(record: Operation, unit: str) -> Attachment:
    """The unit as holder, known by its operation: the unit does not exist yet, so it has no UID."""
    return Attachment(unit=unit, operation=record.metadata.uid, operationName=record.metadata.name)


def held_by_unit(unit: GPUUnit) -> Attachment:
    """A unit that exists. It may still hold a storage under the name of the operation that created it."""
    meta = unit.metadata
    return Attachment(unit=meta.name, uid=meta.uid, operation=meta.annotations.get(OPERATION_UID, ""))


def same_holder(one: Attachment, other: Attachment) -> bool:
    if (one.unit, one.storage) != (other.unit, other.storage):
        return False
    return bool(one.uid and one.uid == other.uid) or bool(one.operation and one.operation == other.operation)


class Reservations:
    """Reads storages live and reserves them by compare-and-set, always in the order of their names.

    Only the controller frees a storage, because it checks that no pod mounts it. The exception is a failed operation:
    its unit never became active, so nothing was ever mounted for it.
    """

    def __init__(self, cluster: Cluster, clock: Clock = SYSTEM_CLOCK, fence: Callable[[], str] = new_fence) -> None:
        self._cluster = cluster
        self._clock = clock
        self._fence = fence

    async def check(self, namespace: str, mounts: Iterable[StorageMount], holder: Attachment | None = None) -> None:
        """Raises what `reserve` would raise now, and writes nothing."""
        for key in _keys(namespace, mounts):
            _is_free(await self._read(key), holder)

    async def reserve(self, namespace: str, mounts: Iterable[StorageMount], holder: Attachment) -> None:
        """Makes `holder` the holder of all these storages; Missing, StorageInUse or Clash if one cannot be reserved."""
        for key in _keys(namespace, mounts):
            await self._reserve(key, holder)

    async def release(self, namespace: str, mounts: Iterable[StorageMount], holder: Attachment) -> None:
        """Frees those of the storages that `holder` holds. Only for an operation that failed."""
        for key in _keys(namespace, mounts):
            await self._release(key, holder)

    async def _reserve(self, key: Key, holder: Attachment) -> None:
        while True:
            storage = await self._read(key)
            if not _is_free(storage, holder) and not holder.uid:
                return  # the judge frees nothing while the operation runs
            # Written even if this unit holds it already: if the judge is about to free the storage, it gets a Conflict.
            known = replace(holder, operation="") if holder.uid else holder
            record = attached_to(replace(known, since=self._clock.now().replace(microsecond=0)))
            patch = {"metadata": {**identity(storage.metadata), "annotations": {**record, FENCE: self._fence()}}}
            try:
                await self._cluster.patch(GPU_STORAGES, key, patch)
            except (Conflict, NotFound):
                continue  # usually a status was written: read it again
            return

    async def _release(self, key: Key, holder: Attachment) -> None:
        while True:
            try:
                storage = await self._cluster.get(GPU_STORAGES, key)
            except NotFound:
                return
            current = attachment_of(storage.metadata)
            if current is None or not same_holder(current, holder):
                return
            patch = {"metadata": {**identity(storage.metadata), "annotations": {ATTACHED_TO: None}}}
            try:
                await self._cluster.patch(GPU_STORAGES, key, patch)
            except (Conflict, NotFound):
                continue
            return

    async def _read(self, key: Key) -> GPUStorage:
        try:
            return await self._cluster.get(GPU_STORAGES, key)
        except NotFound as error:
            raise Missing(
                "gpu_storage", f"storage {key.name} does not exist in namespace {key.namespace}: create it first"
            ) from error


def _keys(namespace: str, mounts: Iterable[StorageMount]) -> list[Key]:
    """Sorted: of two requests that want the same storages, one fails at the first storage and keeps none of them."""
    return [Key(namespace, name) for name in sorted({mount.name for mount in mounts})]


def _is_free(storage: GPUStorage, holder: Attachment | None) -> bool:
    """True if the storage has no holder, False if `holder` holds it already. Raises if it cannot be reserved."""
    name, current = storage.metadata.name, attachment_of(storage.metadata)
    if storage.metadata.deletionTimestamp is not None:
        raise Clash(f"storage {name} is being deleted: mount another one")
    if current is not None and holder is not None and same_holder(current, holder):
        return False
    if current is not None:
        raise StorageInUse(in_use(name, current))
    return True
