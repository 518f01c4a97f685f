"""Frees a storage whose holder no longer mounts it. docs/storage.md describes the whole protocol.

All reads are live and come in this order: storage, operation, unit, Deployment, ReplicaSets, pods. A unit and a
Deployment that exist are touched, on the version that was read, before the storage is freed: a change of the unit or a
mount that was decided earlier then fails with Conflict. The storage is freed on the version of the first read, so a
holder that reserved it again in between keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, FENCE
from gpu_runtime.api.v1alpha1.attachment import UNREADABLE, Attachment, attachment_of, holds, new_fence
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import UNIT
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.gpustorage.mounters import (
    DEPLOYMENT_MAKERS,
    JOB_MAKERS,
    MOUNTER_PODS,
    REPLICA_SET_MAKERS,
)
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS, OPERATIONS
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)
YOUNG_SECONDS = 5.0
"""A record younger than this is not judged: its request is about to make the unit mount the storage, and the judge
would only cause conflicts."""

AGAIN_SECONDS = 2.0
"""How often a storage is judged while pods of its former holder end."""


class StillHeld(Exception):
    """Something of the holder mounts the storage, or may mount it; the message says what."""


@dataclass(frozen=True)
class Verdict:
    """The storage after judging. If its holder seems to have left: why it is not free yet, and when to judge again."""

    storage: GPUStorage
    waits_for: str = ""
    requeue_after: float | None = None


@dataclass(frozen=True)
class Judge:
    """Decides whether the recorded holder of a storage still holds it."""

    client: Client
    caches: Caches
    clock: Clock
    fence: Callable[[], str] = new_fence

    async def judge(self, storage: GPUStorage) -> Verdict:
        """Frees the storage if nothing of its holder mounts it or can mount it again."""
        holder = attachment_of(storage.metadata)
        if holder is None or holder is UNREADABLE or self._seems_held(storage.metadata, holder):
            return Verdict(storage)
        if (seconds := self._too_young_for(holder)) > 0:
            return Verdict(storage, f"{holder} has just reserved it", seconds)
        try:
            freed = await self._free(storage.metadata.key)
        except StillHeld as held:
            return Verdict(storage, str(held), AGAIN_SECONDS)
        except (Conflict, NotFound):
            return Verdict(storage, f"{holder} has just changed", AGAIN_SECONDS)
        return Verdict(self.caches.storages.wrote(freed))

    def _seems_held(self, storage: ObjectMeta, holder: Attachment) -> bool:
        """Whether the cache shows that the holder wants the storage. Then live reads are skipped."""
        if holder.storage:
            target = self.caches.storages.get(Key(storage.namespace, holder.storage))
            return target is not None and target.metadata.uid == holder.uid and not copy_has_ended(target)
        unit = self.caches.units.get(Key(storage.namespace, holder.unit))
        return unit is not None and holds(holder, unit.metadata) and _mounts(unit, storage.name)

    def _too_young_for(self, holder: Attachment) -> float:
        """For how many seconds the record is still too young. If the clocks differ by more than that, it is not."""
        if holder.since is None:
            return 0.0
        age = (self.clock.now() - holder.since) / timedelta(seconds=1)
        return YOUNG_SECONDS - age if -YOUNG_SECONDS < age < YOUNG_SECONDS else 0.0

    async def _free(self, key: Key) -> GPUStorage:
        """The storage without holder. Raises StillHeld or Conflict if it cannot be freed now."""
        storage = await self.client.get(GPU_STORAGES, key)
        holder = attachment_of(storage.metadata)
        if holder is None or holder is UNREADABLE:
            return storage
        if holder.storage:
            await self._copy_has_left(storage.metadata, holder)
        else:
            await self._unit_has_left(storage.metadata, holder)
        patch = {"metadata": {**identity(storage.metadata), "annotations": {ATTACHED_TO: None}}}
        return await self.client.patch(GPU_STORAGES, key, patch)

    async def _unit_has_left(self, storage: ObjectMeta, holder: Attachment) -> None:
        """Raises StillHeld unless the unit no longer mounts the storage, and nothing of the unit can mount it again."""
        if holder.operation:
            await self._operation_has_ended(holder)
        key = Key(storage.namespace, holder.unit)
        unit = await self._get(GPU_UNITS, key)
        is_holder = unit is not None and holds(holder, unit.metadata)
        if unit is not None and is_holder and _mounts(unit, storage.name):
            raise StillHeld(f"unit {key.name} mounts it")
        made = await self._get(DEPLOYMENT_MAKERS, key)
        if made is not None and (made.can_mount(storage.name) or not made.is_settled()):
            raise StillHeld(f"the Deployment of unit {key.name} still mounts it")
        # Touched only now: a unit that waits for another storage keeps its pod, and would be written every 2 seconds.
        if unit is not None and is_holder:
            await self._touch(GPU_UNITS, unit.metadata)
        if made is not None:
            await self._touch(DEPLOYMENT_MAKERS, made.metadata)
        selector = f"{UNIT}={holder.unit}"
        for each in await self._list(REPLICA_SET_MAKERS, storage.namespace, selector):
            if each.mounts(storage.name) and (each.can_mount(storage.name) or not each.is_settled()):
                raise StillHeld(f"ReplicaSet {each.metadata.name} still mounts it")
        await self._no_pod_mounts(storage, selector)
        # All pods: a person may have taken one from its ReplicaSet by removing a label, and it still writes. The list
        # is long, so it comes when the others have found nothing.
        await self._no_pod_mounts(storage)

    async def _copy_has_left(self, storage: ObjectMeta, holder: Attachment) -> None:
        """The same for a storage that copied from this one: its Jobs take the place of the Deployment."""
        target = await self._get(GPU_STORAGES, Key(storage.namespace, holder.storage))
        if target is not None and target.metadata.uid == holder.uid and not copy_has_ended(target):
            raise StillHeld(f"storage {holder.storage} copies from it")
        selector = f"{CONTROLLED_BY}={holder.uid}"
        for job in await self._list(JOB_MAKERS, storage.namespace, selector):
            if job.can_mount(storage.name):
                raise StillHeld(f"Job {job.metadata.name} still mounts it")
            await self._touch(JOB_MAKERS, job.metadata)
        await self._no_pod_mounts(storage, selector)

    async def _operation_has_ended(self, holder: Attachment) -> None:
        """Raises StillHeld while the operation may still create its unit. So it must be read before the unit."""
        # All namespaces are searched: if the settings name a wrong one, the record must not seem to be deleted.
        records = await self._list(OPERATIONS, "", fields=f"metadata.name={holder.operationName}")
        record = next((each for each in records if each.metadata.uid == holder.operation), None)
        if record is not None and record.status.phase in ("Pending", "Running"):
            raise StillHeld(f"operation {holder.operationName} is creating {holder}")

    async def _no_pod_mounts(self, storage: ObjectMeta, selector: str = "") -> None:
        for pod in await self._list(MOUNTER_PODS, storage.namespace, selector):
            fills_or_serves = pod.metadata.labels.get(CONTROLLED_BY) == storage.uid  # in place of the holder
            if pod.mounts(storage.name) and not fills_or_serves:
                raise StillHeld(f"pod {pod.metadata.name} still mounts it")

    async def _get(self, resource: Resource[T], key: Key) -> T | None:
        try:
            return await self.client.get(resource, key)
        except NotFound:
            return None

    async def _list(self, resource: Resource[T], namespace: str, labels: str = "", fields: str = "") -> list[T]:
        listing = await self.client.list(Query(resource, namespace, labels, fields))
        if listing.skipped:
            raise StillHeld(f"{resource.kind} {listing.skipped[0].key} cannot be read: {listing.skipped[0].problem}")
        return listing.items

    async def _touch(self, resource: Resource[T], seen: ObjectMeta) -> None:
        """Changes the version of the object that was read: a write that was decided earlier now fails with Conflict."""
        patch = {"metadata": {**identity(seen), "annotations": {FENCE: self.fence()}}}
        await self.client.patch(resource, seen.key, patch)


def copy_has_ended(target: GPUStorage) -> bool:
    """Whether filling the target is over: it succeeded or failed. A recovery reserves the source again."""
    prepare = target.status.prepare
    return prepare is not None and prepare.phase in ("Succeeded", "Failed")


def _mounts(unit: GPUUnit, storage: str) -> bool:
    return any(mount.name == storage for mount in unit.spec.storageMounts)
