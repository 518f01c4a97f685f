"""Stock pools: created once per operation, listed from the cache, deleted by identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.kube import errors as kube
from gpu_runtime.service.canonical import request_hash
from gpu_runtime.service.cluster import STOCK_POOLS, Cluster
from gpu_runtime.service.errors import AlreadyExists, Missing
from gpu_runtime.service.listing import Filter, Listed, listed
from gpu_runtime.service.made import Made
from gpu_runtime.service.operations import Ask, Operations, check_same, made_by, marks, unfinished
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.refusals import CLIENT_ERRORS, refusal
from gpu_runtime.service.requests import CreateStockPool
from gpu_runtime.service.rules import parse
from gpu_runtime.service.views import Job, StockPoolView, job_view, pool_view


class StockPools:
    """The use cases of stock pools."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        pools: Reader[StockPool],
        namespaces: Namespaces,
        made: Made,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._platform = platform
        self._pools = pools
        self._namespaces = namespaces
        self._made = made

    async def create(self, request: CreateStockPool, sent: Mapping[str, Any], owner: str = "") -> tuple[Job, bool]:
        """The job, and whether it was begun by this very request."""
        namespace = self._platform.allow(request.namespace or self._platform.pool_namespace)
        ask = Ask("CreateStockPool", request.operationID, request_hash(CreateStockPool, sent), sent, owner)
        new, record = False, await self._operations.find(ask.type, ask.operation_id)
        if record is None:
            await self._namespaces.require(namespace)
            makes = ObjectReference(kind="StockPool", namespace=namespace, name=pool_name(request))
            record, new = await self._operations.begin(ask, makes=makes)
        check_same(record, ask)
        if unfinished(record):
            record = await self.execute(record)
        return job_view(record, deleted=not new and await self._made.deleted(record)), new

    async def execute(self, record: Operation) -> Operation:
        """Does what the record says and ends it; safe to run by several at once, and to repeat."""
        pool = stock_pool(record)
        try:
            made = await self._cluster.create(STOCK_POOLS, pool)
        except kube.AlreadyExists as error:
            made = await self._existing(record, pool, error)
        except CLIENT_ERRORS as error:
            await self._operations.remove(record)  # nothing was made, so that the id stays free for another try
            raise refusal(error) from error
        self._pools.wrote(made)
        reference = ObjectReference(
            kind="StockPool", namespace=made.metadata.namespace, name=made.metadata.name, uid=made.metadata.uid
        )
        try:
            return await self._operations.succeed(record, objects=[reference])
        except (kube.Conflict, kube.NotFound):
            # Another executor of this operation was faster; the pool and its annotations are there in any case.
            return await self._operations.named(record.metadata.name) or record

    async def get(self, namespace: str | None, name: str) -> StockPoolView:
        return pool_view(await self._find(self._key(namespace, name)))

    def list(self, namespace: str | None, wanted: Filter) -> Listed[StockPoolView]:
        where = self._platform.allow(namespace or self._platform.pool_namespace)
        return listed(self._pools.all(), wanted, pool_view, namespace=where)

    async def delete(self, namespace: str | None, name: str) -> None:
        """Asks for the deletion of exactly the pool that is there now."""
        pool = await self._find(self._key(namespace, name))
        try:
            await self._cluster.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
        except kube.NotFound as error:
            raise _missing(pool.metadata.key) from error
        self._pools.deleted(pool)

    def _key(self, namespace: str | None, name: str) -> Key:
        return Key(self._platform.allow(namespace or self._platform.pool_namespace), name)

    async def _find(self, key: Key) -> StockPool:
        pool = await self._pools.get(key)
        if pool is None:
            raise _missing(key)
        return pool

    async def _existing(self, record: Operation, wanted: StockPool, error: kube.AlreadyExists) -> StockPool:
        live = await self._pools.live(wanted.metadata.key)
        if live is not None and made_by(live.metadata, record):
            return live
        await self._operations.remove(record)
        raise AlreadyExists(
            f"stock pool {wanted.metadata.key} exists and was not made by operationID {record.spec.operationID}"
        ) from error


def pool_name(request: CreateStockPool) -> str:
    """The given name, or the one that belongs to the operation."""
    return request.name or derived(
        f"pool-{slug(request.specName)}"[:30], "CreateStockPool", request.operationID, limit=57
    )


def stock_pool(record: Operation) -> StockPool:
    """The pool that the record asks for."""
    request = parse(CreateStockPool, record.spec.request)
    where = record.status.objects[0]
    made_labels, made_annotations = marks(record)
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


def _missing(key: Key) -> Missing:
    return Missing("stockpool", f"there is no stock pool {key.name} in namespace {key.namespace}")
