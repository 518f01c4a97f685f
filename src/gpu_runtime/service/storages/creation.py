"""Creates storages without an operationID: the name identifies the request, and the create call is the only write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageSpec
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import AlreadyExists, ServiceError, Unavailable
from gpu_runtime.rest.requests import CreateGPUStorage
from gpu_runtime.service.cluster import GPU_STORAGES, Cluster
from gpu_runtime.service.kubernetes_errors import CLIENT_ERRORS, refusal
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.storages.admission import StorageAdmission
from gpu_runtime.service.storages.changes import amount_of

CREATE_ATTEMPTS = 5


class CreationByName:
    """Idempotent by name: the same request again is answered with the storage that exists."""

    def __init__(self, cluster: Cluster, storages: Reader[GPUStorage], admission: StorageAdmission) -> None:
        self._cluster = cluster
        self._storages = storages
        self._admission = admission

    async def create(self, request: CreateGPUStorage, owner: str) -> tuple[GPUStorage, bool]:
        """The storage, and whether this call created it. AlreadyExists when one with other values has the name."""
        key = self._admission.check(request)
        wanted = gpu_storage(request, key, owner=owner)
        try:
            await self._admission.require(request, key)
        except ServiceError:
            # A request that is sent again is answered even if its source has been deleted since.
            existing = await self._storages.live(key)
            if existing is None:
                raise
            return require_same(existing, wanted), False
        for _ in range(CREATE_ATTEMPTS):
            try:
                return await self._cluster.create(GPU_STORAGES, wanted), True
            except CLIENT_ERRORS as error:
                # The server checks quotas before names: the quota may be full because the storage already exists.
                existing = await self._storages.live(key)
                if existing is not None:
                    return require_same(existing, wanted), False
                if not isinstance(error, kube.AlreadyExists):
                    raise refusal(error) from error
        raise Unavailable(
            f"storage {key.name} is created and deleted by others at the same time; send the request again"
        )


def gpu_storage(
    request: CreateGPUStorage,
    key: Key,
    *,
    owner: str = "",
    more_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> GPUStorage:
    """The storage that the request asks for."""
    return GPUStorage(
        metadata=ObjectMeta(
            name=key.name,
            namespace=key.namespace,
            labels={
                labels.APP_NAME: labels.GPU_STORAGE_APP,
                labels.MANAGED_BY: labels.MANAGER,
                **({labels.OWNER: owner} if owner else {}),
                **(more_labels or {}),
            },
            annotations=dict(annotations or {}),
        ),
        spec=GPUStorageSpec(
            size=request.size,
            storageClassName=request.storageClassName,
            prepare=request.prepare,
            accessor=request.accessor,
        ),
    )


def require_same(existing: GPUStorage, wanted: GPUStorage) -> GPUStorage:
    """The existing storage; AlreadyExists when it differs from the wanted one, or is being deleted."""
    key = existing.metadata.key
    if existing.metadata.deletionTimestamp is not None:
        raise AlreadyExists(f"storage {key} is being deleted; send the request again when it is gone")
    if found := list(differences(existing.spec, wanted.spec)):
        raise AlreadyExists(f"storage {key} exists with other values: {', '.join(found)}")
    return existing


def differences(existing: GPUStorageSpec, wanted: GPUStorageSpec) -> Iterator[str]:
    """The fields that differ, in words. Quantities are compared by value."""
    if amount_of(existing.size) != amount_of(wanted.size):
        yield f"size is {existing.size}, not {wanted.size}"
    if existing.storageClassName != wanted.storageClassName:
        yield f"storageClassName is {existing.storageClassName}, not {wanted.storageClassName}"
    if existing.prepare != wanted.prepare:
        yield "prepare differs"
    if existing.accessor != wanted.accessor:
        yield f"accessor.enabled is {_json(existing.accessor.enabled)}, not {_json(wanted.accessor.enabled)}"


def _json(value: bool) -> str:
    return "true" if value else "false"
