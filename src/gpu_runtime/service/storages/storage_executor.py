"""Operations of type CreateGPUStorage: creates of storages that have an operationID."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUStorage
from gpu_runtime.service.cluster import GPU_STORAGES, Cluster
from gpu_runtime.service.operations.object_executor import ObjectExecutor
from gpu_runtime.service.operations.records import NewOperation, Operations, operation_metadata
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.storages.admission import StorageAdmission
from gpu_runtime.service.storages.creation import gpu_storage


class StorageExecutor(ObjectExecutor[CreateGPUStorage, GPUStorage]):
    """Creates the storage before the reply. Continues abandoned operations."""

    operation_type = "CreateGPUStorage"
    job_type = "create_gpu_storage"
    request_type = CreateGPUStorage
    noun = "storage"

    def __init__(
        self, cluster: Cluster, operations: Operations, storages: Reader[GPUStorage], admission: StorageAdmission
    ) -> None:
        super().__init__(cluster, operations, GPU_STORAGES, storages)
        self._admission = admission

    def check(self, request: CreateGPUStorage) -> None:
        self._admission.check(request)

    async def find(self, request: CreateGPUStorage) -> Operation | None:
        """Reads the record only when the cache has a storage with this name: most requests are new."""
        if self._reader.store.get(self._admission.key(request.namespace, request.name)) is None:
            return None
        return await super().find(request)

    async def begin(self, wanted: NewOperation, request: CreateGPUStorage) -> tuple[Operation, bool]:
        key = self._admission.check(request)
        try:
            await self._admission.require(request, key)
        except ServiceError:
            record = await super().find(request)
            if record is None:
                raise
            return record, False  # the operation has begun: it no longer needs the source
        makes = ObjectReference(kind=GPU_STORAGES.kind, namespace=key.namespace, name=key.name)
        return await self._operations.begin(wanted, makes=makes)

    def build(self, record: Operation) -> GPUStorage:
        where = record.status.objects[0]
        made_labels, made_annotations = operation_metadata(record)
        return gpu_storage(
            parse(CreateGPUStorage, record.spec.request),
            Key(where.namespace, where.name),
            more_labels=made_labels,
            annotations=made_annotations,
        )
