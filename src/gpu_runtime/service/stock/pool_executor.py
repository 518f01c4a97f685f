"""Operations of type CreateStockPool."""

from __future__ import annotations

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.service.cluster import STOCK_POOLS, Cluster
from gpu_runtime.service.operations.object_executor import ObjectExecutor
from gpu_runtime.service.operations.records import NewOperation, Operations, operation_metadata
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader


class PoolExecutor(ObjectExecutor[CreateStockPool, StockPool]):
    """Creates the pool before the reply. Continues abandoned operations."""

    operation_type = "CreateStockPool"
    job_type = "create_stockpool"
    request_type = CreateStockPool
    noun = "stock pool"

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        pools: Reader[StockPool],
        namespaces: Namespaces,
    ) -> None:
        super().__init__(cluster, operations, STOCK_POOLS, pools)
        self._platform = platform
        self._namespaces = namespaces

    def check(self, request: CreateStockPool) -> None:
        self._namespace(request)

    async def begin(self, wanted: NewOperation, request: CreateStockPool) -> tuple[Operation, bool]:
        namespace = await self._namespaces.require(self._namespace(request))
        makes = ObjectReference(kind="StockPool", namespace=namespace, name=pool_name(request))
        return await self._operations.begin(wanted, makes=makes)

    def build(self, record: Operation) -> StockPool:
        return stock_pool(record)

    def _namespace(self, request: CreateStockPool) -> str:
        return self._platform.allow(request.namespace or self._platform.pool_namespace)


def pool_name(request: CreateStockPool) -> str:
    """The requested name; by default a name derived from the operation."""
    return request.name or derived(
        f"pool-{slug(request.specName)}"[:30], PoolExecutor.operation_type, request.operationID, limit=57
    )


def stock_pool(record: Operation) -> StockPool:
    """The pool that the record asks for."""
    request = parse(CreateStockPool, record.spec.request)
    where = record.status.objects[0]
    made_labels, made_annotations = operation_metadata(record)
    return StockPool(
        metadata=ObjectMeta(
            name=where.name,
            namespace=where.namespace,
            labels={
                labels.APP_NAME: labels.STOCK_POOL_APP,
                labels.MANAGED_BY: labels.MANAGER,
                labels.SPEC_NAME: request.specName,
                **made_labels,
            },
            annotations=made_annotations,
        ),
        spec=StockPoolSpec(
            specName=request.specName,
            image=request.image,
            memory=request.memory,
            gpu=request.gpu,
            replicas=request.replicas,
            template=request.template,
        ),
    )
