"""Holds the source of a copy: nobody may write to it during the copy.

The protocol is the one with which a unit mounts a storage (docs/storage.md). The order of the calls makes it safe:

1. The caller sees its Job and names it in the target's status.
2. This module reads the source live and writes the record of its holder.
3. The caller resumes the Job on the version that it saw.

The judge touches the Job before it frees the source, so a resume that was decided earlier fails with Conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import FENCE
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to, attachment_of, new_fence
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.gpustorage.accessor import is_out_of_the_way
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import NotFound


class SourceMissing(Exception):
    """There is no storage of that name."""


class SourceBusy(Exception):
    """The source cannot be copied now. A change of the source triggers a reconcile of the target."""


@dataclass(frozen=True)
class CopySource:
    """Reads the source live: the cache may show a former holder, or miss the current one."""

    client: Client
    caches: Caches
    clock: Clock
    fence: Callable[[], str] = new_fence

    async def look(self, target: GPUStorage, name: str) -> GPUStorage:
        """The source, if the target may copy it now. Raises SourceMissing or SourceBusy otherwise."""
        try:
            source = await self.client.get(GPU_STORAGES, Key(target.metadata.namespace, name))
        except NotFound:
            raise SourceMissing(f"spec.prepare.fromStorageName: storage {name} does not exist: create it") from None
        holder = attachment_of(source.metadata)
        if source.metadata.deletionTimestamp is not None:
            raise SourceBusy(f"storage {name} is being deleted")
        if holder is not None and not _is_held_by(holder, target):
            raise SourceBusy(f"storage {name} is in use by {holder}: it is copied when nobody writes to it")
        if not source.status.mountable:
            raise SourceBusy(f"storage {name} is not ready{_reason(source)}")
        return source

    async def hold(self, target: GPUStorage, name: str) -> None:
        """Makes the target the holder of the source. Raises SourceBusy while the pod that serves its files ends.

        It writes even if the target is the holder already: if the judge is about to free the source, because an earlier
        attempt ended, the judge then gets a Conflict.
        """
        source = await self.look(target, name)
        holder = attachment_of(source.metadata)
        if holder is None:
            since = self.clock.now().replace(microsecond=0)
            holder = Attachment(storage=target.metadata.name, uid=target.metadata.uid, since=since)
        else:
            _check_accessor(source)  # before the write: each write triggers a reconcile of the target
        notes = {**attached_to(holder), FENCE: self.fence()}
        patch = {"metadata": {**identity(source.metadata), "annotations": notes}}
        held = self.caches.storages.wrote(await self.client.patch(GPU_STORAGES, source.metadata.key, patch))
        _check_accessor(held)


def _check_accessor(source: GPUStorage) -> None:
    """Raises SourceBusy while a pod serves the files: the pod of the copy may be on another node."""
    if not is_out_of_the_way(source):
        raise SourceBusy(f"the pod that serves the files of storage {source.metadata.name} is ending")


def _is_held_by(holder: Attachment, target: GPUStorage) -> bool:
    return bool(holder.uid) and (holder.storage, holder.uid) == (target.metadata.name, target.metadata.uid)


def _reason(source: GPUStorage) -> str:
    """The reason only. With messages, two storages that wait for each other would quote each other without end."""
    ready = find_condition(source.status.conditions, READY)
    return f": {ready.reason}" if ready is not None else ""
