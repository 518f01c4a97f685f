"""Checks a request for a new storage against this installation and the cluster, before anything is written."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.validation import FieldError
from gpu_runtime.rest.errors import Clash, InvalidRequest, Missing, StorageInUse
from gpu_runtime.rest.requests import CreateGPUStorage
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.views import reported_status


class StorageAdmission:
    """Decides whether a storage may be created, and its key."""

    def __init__(self, platform: Platform, storages: Reader[GPUStorage], namespaces: Namespaces) -> None:
        self._platform = platform
        self._storages = storages
        self._namespaces = namespaces

    def check(self, request: CreateGPUStorage) -> Key:
        """The key of the new storage. ServiceError when the request alone shows that it must be refused."""
        self.check_size(request.size)
        return self.key(request.namespace, request.name)

    def check_size(self, size: str) -> None:
        largest = self._platform.largest_storage
        if Quantity.parse(size) > largest:
            message = f"{size} is more than {largest}, the largest size that this installation allows"
            raise InvalidRequest.of([FieldError("size", message)])

    def key(self, namespace: str | None, name: str) -> Key:
        return Key(self._platform.allow(namespace or self._platform.instance_namespace), name)

    async def require(self, request: CreateGPUStorage, key: Key) -> None:
        """ServiceError when the namespace, or the storage to copy from, cannot be used now."""
        await self._namespaces.require(key.namespace)
        if request.prepare is not None and request.prepare.fromStorageName is not None:
            await self._require_source(Key(key.namespace, request.prepare.fromStorageName))

    async def _require_source(self, key: Key) -> None:
        """ServiceError when the source cannot be copied. Another copy from it is no problem: it ends by itself."""
        source = await self._storages.live(key)
        if source is None:
            raise missing(key, "prepare.fromStorageName: ")
        if source.metadata.deletionTimestamp is not None:
            raise Clash(f"prepare.fromStorageName: storage {key.name} is being deleted")
        holder = attachment_of(source.metadata)
        if holder is not None and not holder.storage:
            raise StorageInUse(
                f"prepare.fromStorageName: storage {key.name} is in use by {holder}, which may change it during the "
                "copy: detach it first"
            )
        if source.status.phase != "Ready":
            reported = reported_status(source)
            why = f" ({reported.reason}: {reported.message})" if reported.reason else ""
            raise Clash(f"prepare.fromStorageName: storage {key.name} is not Ready but {reported.phase}{why}")


def missing(key: Key, prefix: str = "") -> Missing:
    return Missing("gpu_storage", f"{prefix}storage {key.name} does not exist in namespace {key.namespace}")
