"""Operations of type CreateGPUFunction."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionSpec
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.rest.function_requests import CreateGPUFunction
from gpu_runtime.rest.request_validation import convert
from gpu_runtime.service.cluster import GPU_FUNCTIONS, Cluster
from gpu_runtime.service.operations.object_executor import ObjectExecutor
from gpu_runtime.service.operations.records import NewOperation, Operations, operation_metadata
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader


class FunctionExecutor(ObjectExecutor[CreateGPUFunction, GPUFunction]):
    """Creates the function before the reply. Continues abandoned operations."""

    operation_type = "CreateGPUFunction"
    job_type = "create_gpu_function"
    request_type = CreateGPUFunction
    noun = "function"

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        functions: Reader[GPUFunction],
        namespaces: Namespaces,
    ) -> None:
        super().__init__(cluster, operations, GPU_FUNCTIONS, functions)
        self._platform = platform
        self._namespaces = namespaces

    def check(self, request: CreateGPUFunction) -> None:
        self._key(request)

    async def begin(self, wanted: NewOperation, request: CreateGPUFunction) -> tuple[Operation, bool]:
        key = self._key(request)
        await self._namespaces.require(key.namespace)
        makes = ObjectReference(kind=GPU_FUNCTIONS.kind, namespace=key.namespace, name=key.name)
        return await self._operations.begin(wanted, makes=makes)

    def build(self, record: Operation) -> GPUFunction:
        # Not validated again: to parse a large handler takes long, and the record holds only what was accepted.
        request = convert(CreateGPUFunction, record.spec.request)
        where = record.status.objects[0]
        made_labels, made_annotations = operation_metadata(record)
        return GPUFunction(
            metadata=ObjectMeta(
                name=where.name,
                namespace=where.namespace,
                labels={
                    labels.APP_NAME: labels.GPU_FUNCTION_APP,
                    labels.MANAGED_BY: labels.MANAGER,
                    **made_labels,
                },
                annotations=made_annotations,
            ),
            spec=GPUFunctionSpec(**{name: getattr(request, name) for name in GPUFunctionSpec.__struct_fields__}),
        )

    def _key(self, request: CreateGPUFunction) -> Key:
        return Key(self._platform.allow(request.namespace or self._platform.instance_namespace), request.name)
