"""The use cases of storages: create, read, update, recover, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any
from uuid import uuid4

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.attachment import UNREADABLE, attachment_of, in_use
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import Clash, StorageInUse
from gpu_runtime.rest.requests import CreateGPUStorage, UpdateGPUStorage
from gpu_runtime.rest.views import StorageView
from gpu_runtime.service.cluster import GPU_STORAGES, Cluster
from gpu_runtime.service.listing import Filter, ListPage, list_page
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.operations.object_executor import CreatedObject
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.storages.admission import StorageAdmission, missing
from gpu_runtime.service.storages.changes import changed_spec, grows, recovery_problem
from gpu_runtime.service.storages.creation import CreationByName
from gpu_runtime.service.storages.storage_class import require_expansion
from gpu_runtime.service.storages.storage_executor import StorageExecutor
from gpu_runtime.service.views import storage_view

ATTEMPTS = 10


def new_nonce() -> str:
    return uuid4().hex


class Storages:
    """Decides on live reads, and writes only on the version that was read."""

    def __init__(
        self,
        cluster: Cluster,
        storages: Reader[GPUStorage],
        admission: StorageAdmission,
        executor: StorageExecutor,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self._cluster = cluster
        self._storages = storages
        self._admission = admission
        self._executor = executor
        self._by_name = CreationByName(cluster, storages, admission)
        self._nonce = nonce

    async def create(
        self, request: CreateGPUStorage, sent: Mapping[str, Any], owner: str = ""
    ) -> tuple[StorageView, bool]:
        """The storage, and whether this call created it."""
        if request.operationID is None:
            storage, new = await self._by_name.create(request, owner)
            self._storages.wrote(storage)
            return storage_view(storage), new
        done, new = await carry_out(self._executor, request, sent, owner)
        return await self._answer(done), new

    async def get(self, namespace: str | None, name: str) -> StorageView:
        key = self.key(namespace, name)
        return storage_view(self._storages.cached(key) or await self._find_live(key))

    def list(self, namespace: str | None, wanted: Filter) -> ListPage[StorageView]:
        return list_page(self._storages.all(), wanted, storage_view, namespace=self.namespace(namespace))

    async def update(
        self, namespace: str | None, name: str, change: UpdateGPUStorage, if_match: str = ""
    ) -> StorageView:
        """Changes the storage; with `if_match`, only that version of it."""
        key = self.key(namespace, name)
        for _ in range(ATTEMPTS):
            storage = await self._find_live(key)
            _check_version(storage, if_match)
            patch = changed_spec(storage, change)
            if not patch:
                return storage_view(storage)
            if grows(patch):
                self._admission.check_size(patch["size"])
                await require_expansion(self._cluster, storage.spec.storageClassName, name)
            written = await self._write(storage, {"spec": patch})
            if written is not None:
                return storage_view(written)
        raise _keeps_changing(name)

    async def recover(self, namespace: str | None, name: str) -> StorageView:
        """Starts a failed prepare again. Clash when there is nothing to recover."""
        key = self.key(namespace, name)
        for _ in range(ATTEMPTS):
            storage = await self._find_live(key)
            if problem := recovery_problem(storage):
                raise Clash(f"storage {name} {problem}")
            nonce = {notes.STORAGE_RECOVERY_NONCE: self._nonce()}
            written = await self._write(storage, {"metadata": {"annotations": nonce}})
            if written is not None:
                return storage_view(written)
        raise _keeps_changing(name)

    async def delete(self, namespace: str | None, name: str, if_match: str = "") -> None:
        """Deletes the storage with its data, unless somebody holds it.

        The deletion names the version that was read: it fails if a unit reserves the storage in between.
        """
        key = self.key(namespace, name)
        for _ in range(ATTEMPTS):
            storage = await self._find_live(key)
            _check_version(storage, if_match)
            _check_free(storage)
            await self._executor.settle(storage)
            meta = storage.metadata
            try:
                await self._cluster.delete(GPU_STORAGES, key, uid=meta.uid, resource_version=meta.resourceVersion)
            except kube.NotFound as error:
                raise missing(key) from error
            except kube.Conflict:
                continue
            self._storages.deleted(storage)
            return
        raise _keeps_changing(name)

    def namespace(self, given: str | None) -> str:
        return self.key(given, "").namespace

    def key(self, namespace: str | None, name: str) -> Key:
        return self._admission.key(namespace, name)

    async def _find_live(self, key: Key) -> GPUStorage:
        storage = await self._storages.live(key)
        if storage is None:
            raise missing(key)
        return storage

    async def _write(self, storage: GPUStorage, patch: Mapping[str, Any]) -> GPUStorage | None:
        """Patches the version that was read; None when the storage has changed since."""
        meta = storage.metadata
        guarded = {**patch, "metadata": {**identity(meta), **patch.get("metadata", {})}}
        try:
            written = await self._cluster.patch(GPU_STORAGES, meta.key, guarded)
        except kube.NotFound as error:
            raise missing(meta.key) from error
        except kube.Conflict:
            return None
        self._storages.wrote(written)
        return written

    async def _answer(self, done: CreatedObject[GPUStorage]) -> StorageView:
        created = done.record.status.objects[0]
        key = Key(created.namespace, created.name)
        storage = done.object or await self._storages.get(key)
        if storage is not None and storage.metadata.uid != created.uid:
            storage = await self._storages.live(key)  # the cache may show an earlier storage of this name
        if storage is not None and storage.metadata.uid == created.uid:
            return storage_view(storage)
        operation_id = done.record.spec.operationID
        return StorageView(name=key.name, namespace=key.namespace, operationID=operation_id, deleted=True)


def _check_version(storage: GPUStorage, if_match: str) -> None:
    version = storage.metadata.resourceVersion
    if if_match and if_match != version:
        raise Clash(f"storage {storage.metadata.name} has changed: it is at version {version}, not {if_match}")


def _check_free(storage: GPUStorage) -> None:
    holder = attachment_of(storage.metadata)
    if holder is None:
        return
    if holder is UNREADABLE:
        raise StorageInUse(in_use(storage.metadata.name, holder))
    since = f" since {holder.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if holder.since else ""
    detach = "delete the unit or remove the mount from it, and wait until its pod has ended"
    cure = "wait until the copy ends" if holder.storage else detach
    raise StorageInUse(f"storage {storage.metadata.name} is in use by {holder}{since}: {cure}")


def _keeps_changing(name: str) -> Clash:
    return Clash(f"storage {name} keeps changing; send the request again")
