"""Operations of type CreateStockPool: one request creates one pool, also with several executors and retries."""

from __future__ import annotations

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import AlreadyExists, ServiceError, Unavailable
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.service.cluster import STOCK_POOLS, Cluster
from gpu_runtime.service.kubernetes_errors import CLIENT_ERRORS, refusal
from gpu_runtime.service.operations.executor import Done, Executor, object_lives
from gpu_runtime.service.operations.records import NewOperation, Operations, made_by, operation_metadata, unfinished
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader

MAX_ATTEMPTS = 10


class PoolExecutor(Executor[CreateStockPool, Done]):
    """Creates the pool before the reply. Continues abandoned operations."""

    operation_type = "CreateStockPool"
    job_type = "create_stockpool"
    request_type = CreateStockPool
    max_attempts = MAX_ATTEMPTS

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        pools: Reader[StockPool],
        namespaces: Namespaces,
    ) -> None:
        super().__init__(operations)
        self._cluster = cluster
        self._platform = platform
        self._pools = pools
        self._namespaces = namespaces

    def check(self, request: CreateStockPool) -> None:
        self._namespace(request)

    async def begin(self, wanted: NewOperation, request: CreateStockPool) -> tuple[Operation, bool]:
        namespace = await self._namespaces.require(self._namespace(request))
        makes = ObjectReference(kind="StockPool", namespace=namespace, name=pool_name(request))
        return await self._operations.begin(wanted, makes=makes)

    async def execute(self, record: Operation) -> Done | None:
        """Creates the pool and finishes the record; None when the record is gone.

        Safe with several executors and retries: the record lists one UID, and a pool with another UID is deleted.
        """
        for _ in range(MAX_ATTEMPTS):
            made = await self._make(record)
            if made is not None:
                self._pools.wrote(made)
                try:
                    return Done(await self._operations.succeed(record, objects=[_reference(made)]))
                except (kube.Conflict, kube.NotFound):
                    pass  # another executor of this operation was faster
            current = await self._operations.get_by_name(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                await self._remove(record, made)
                return None
            if not unfinished(current):
                if made is not None and current.status.objects[0].uid != made.metadata.uid:
                    await self._remove(record, made)
                return Done(current)
            record = current
        raise Unavailable("a pool with this name is still being deleted; send the request again")

    async def replay(self, record: Operation) -> Done | None:
        return await self.execute(record) if unfinished(record) else Done(record)

    async def resume(self, record: Operation) -> None:
        await self.execute(record)

    async def lives(self, record: Operation) -> bool:
        return await object_lives(record, self._pools)

    async def settle(self, pool: StockPool) -> None:
        """Finishes the record of a pool before the pool is deleted: otherwise an executor would create it again."""
        name = pool.metadata.labels.get(labels.OPERATION, "")
        for _ in range(MAX_ATTEMPTS):
            record = await self._operations.get_by_name(name) if name else None
            if record is None or not unfinished(record) or not made_by(pool.metadata, record):
                return
            try:
                await self._operations.succeed(record, objects=[_reference(pool)])
                return
            except (kube.Conflict, kube.NotFound):
                continue
        raise Unavailable("the record of this pool keeps changing; send the request again")

    def _namespace(self, request: CreateStockPool) -> str:
        return self._platform.allow(request.namespace or self._platform.pool_namespace)

    async def _make(self, record: Operation) -> StockPool | None:
        """The operation's pool, created or found; None when the record has to be read again."""
        wanted = stock_pool(record)
        try:
            return await self._cluster.create(STOCK_POOLS, wanted)
        except kube.AlreadyExists as error:
            taken = f"stock pool {wanted.metadata.key} exists; operationID {record.spec.operationID} did not create it"
            refused: ServiceError = AlreadyExists(taken)
            cause: kube.KubeError = error
        except CLIENT_ERRORS as error:
            refused, cause = refusal(error), error
        # The server checks quotas before names: the quota may be full because our own pool already exists.
        live = await self._pools.live(wanted.metadata.key)
        if live is not None and made_by(live.metadata, record):
            return await self._adopt(record, live)
        if live is None and isinstance(cause, kube.AlreadyExists):
            return None  # the pool was deleted between the two calls: the record tells whether it was ours
        # No pool was created, so the client may use the id again.
        if not await self._operations.remove(record):
            return None
        raise refused from cause

    async def _adopt(self, record: Operation, pool: StockPool) -> StockPool | None:
        """The pool, annotated with the UID of this record; None when the pool changed meanwhile.

        An executor whose record is gone removes pools with that record's UID, so an adopted pool must not keep it.
        """
        meta = pool.metadata
        if meta.annotations.get(notes.OPERATION_UID) == record.metadata.uid:
            return pool
        mark = {"annotations": {notes.OPERATION_UID: record.metadata.uid}}
        try:
            return await self._cluster.patch(STOCK_POOLS, meta.key, {"metadata": {**identity(meta), **mark}})
        except (kube.Conflict, kube.NotFound):
            return None

    async def _remove(self, record: Operation, pool: StockPool | None) -> None:
        """Deletes a pool that the record never lists, unless another record of this request adopted it."""
        while pool is not None and pool.metadata.annotations.get(notes.OPERATION_UID) == record.metadata.uid:
            meta = pool.metadata
            try:
                await self._cluster.delete(STOCK_POOLS, meta.key, uid=meta.uid, resource_version=meta.resourceVersion)
                return
            except kube.NotFound:
                return
            except kube.Conflict:
                live = await self._pools.live(meta.key)
                pool = live if live is not None and live.metadata.uid == meta.uid else None


def _reference(pool: StockPool) -> ObjectReference:
    meta = pool.metadata
    return ObjectReference(kind="StockPool", namespace=meta.namespace, name=meta.name, uid=meta.uid)


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
