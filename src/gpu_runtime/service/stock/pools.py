"""Stock pools: created once per operation, listed from the cache, deleted by identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import AlreadyExists, Missing, ServiceError, Unavailable
from gpu_runtime.rest.parsing import parse
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.rest.views import Job, StockPoolView
from gpu_runtime.service.cluster import STOCK_POOLS, Cluster
from gpu_runtime.service.listing import Filter, Listed, listed
from gpu_runtime.service.operations.created_objects import CreatedObjects
from gpu_runtime.service.operations.records import Ask, Operations, check_same, made_by, marks, unfinished
from gpu_runtime.service.operations.request_hash import request_hash
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.refusals import CLIENT_ERRORS, refusal
from gpu_runtime.service.views import job_view, pool_view

MOST_TURNS = 10


class StockPools:
    """The use cases of stock pools."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        pools: Reader[StockPool],
        namespaces: Namespaces,
        created: CreatedObjects,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._platform = platform
        self._pools = pools
        self._namespaces = namespaces
        self._created = created

    async def create(self, request: CreateStockPool, sent: Mapping[str, Any], owner: str = "") -> tuple[Job, bool]:
        """The job, and whether it was begun by this very request."""
        namespace = self._platform.allow(request.namespace or self._platform.pool_namespace)
        ask = Ask("CreateStockPool", request.operationID, request_hash(CreateStockPool, sent), sent, owner)
        makes = ObjectReference(kind="StockPool", namespace=namespace, name=pool_name(request))
        for _ in range(MOST_TURNS):
            new, record = False, await self._operations.find(ask.type, ask.operation_id)
            if record is None:
                await self._namespaces.require(namespace)
                record, new = await self._operations.begin(ask, makes=makes)
            check_same(record, ask)
            if unfinished(record):
                record = await self.execute(record)
            if record is not None:
                check_same(record, ask)  # the record may be new: another request may have taken the id since
                return job_view(record, deleted=not new and await self._created.deleted(record)), new
        raise Unavailable("the operation was given up several times; send the request again")

    async def execute(self, record: Operation) -> Operation | None:
        """Makes the pool and ends the record; None when the record is gone.

        Several may execute one record at once, and it may be repeated: the record lists one UID, and a pool with
        another UID is removed.
        """
        for _ in range(MOST_TURNS):
            made = await self._make(record)
            if made is not None:
                self._pools.wrote(made)
                try:
                    return await self._operations.succeed(record, objects=[_reference(made)])
                except (kube.Conflict, kube.NotFound):
                    pass  # another executor of this operation was faster
            current = await self._operations.named(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                await self._remove(record, made)
                return None
            if not unfinished(current):
                if made is not None and current.status.objects[0].uid != made.metadata.uid:
                    await self._remove(record, made)
                return current
            record = current
        raise Unavailable("a pool of this name is still being removed; send the request again")

    async def get(self, namespace: str | None, name: str) -> StockPoolView:
        return pool_view(await self._find(self._key(namespace, name)))

    def list(self, namespace: str | None, wanted: Filter) -> Listed[StockPoolView]:
        where = self._platform.allow(namespace or self._platform.pool_namespace)
        return listed(self._pools.all(), wanted, pool_view, namespace=where)

    async def delete(self, namespace: str | None, name: str) -> None:
        """Asks for the deletion of exactly the pool that is there now."""
        key = self._key(namespace, name)
        pool = await self._pools.live(key)
        if pool is None:
            raise _missing(key)
        await self._settle(pool)
        try:
            await self._cluster.delete(STOCK_POOLS, key, uid=pool.metadata.uid)
        except kube.NotFound as error:
            raise _missing(key) from error
        self._pools.deleted(pool)

    def _key(self, namespace: str | None, name: str) -> Key:
        return Key(self._platform.allow(namespace or self._platform.pool_namespace), name)

    async def _find(self, key: Key) -> StockPool:
        pool = await self._pools.get(key)
        if pool is None:
            raise _missing(key)
        return pool

    async def _make(self, record: Operation) -> StockPool | None:
        """The operation's pool, created or found; None when the record has to be read again."""
        wanted = stock_pool(record)
        try:
            return await self._cluster.create(STOCK_POOLS, wanted)
        except kube.AlreadyExists as error:
            taken = f"stock pool {wanted.metadata.key} exists and was not made by operationID {record.spec.operationID}"
            refused: ServiceError = AlreadyExists(taken)
            cause: kube.KubeError = error
        except CLIENT_ERRORS as error:
            refused, cause = refusal(error), error
        # The server checks quotas before names: the quota may be full because our own pool already exists.
        live = await self._pools.live(wanted.metadata.key)
        if live is not None and made_by(live.metadata, record):
            return await self._adopt(record, live)
        if live is None and isinstance(cause, kube.AlreadyExists):
            return None  # the other pool was deleted between the two calls: the record says whether it was ours
        # Nothing was made, so the id stays free for another try.
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
        """Removes a pool that the record never lists, unless another record of this request adopted it."""
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

    async def _settle(self, pool: StockPool) -> None:
        """Ends the unfinished record of a pool that is about to be deleted: an executor would make the pool again."""
        name = pool.metadata.labels.get(labels.OPERATION, "")
        for _ in range(MOST_TURNS):
            record = await self._operations.named(name) if name else None
            if record is None or not unfinished(record) or not made_by(pool.metadata, record):
                return
            try:
                await self._operations.succeed(record, objects=[_reference(pool)])
                return
            except (kube.Conflict, kube.NotFound):
                continue
        raise Unavailable("the record of this pool keeps changing; send the request again")


def _reference(pool: StockPool) -> ObjectReference:
    meta = pool.metadata
    return ObjectReference(kind="StockPool", namespace=meta.namespace, name=meta.name, uid=meta.uid)


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
