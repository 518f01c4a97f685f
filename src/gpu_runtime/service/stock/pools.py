"""The use cases of stock pools: create, read, list, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import Missing
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.rest.views import Job, StockPoolView
from gpu_runtime.service.cluster import STOCK_POOLS, Cluster
from gpu_runtime.service.listing import Filter, ListPage, list_page
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.stock.pool_executor import PoolExecutor
from gpu_runtime.service.views import job_view, pool_view


class StockPools:
    """The use cases of stock pools."""

    def __init__(self, cluster: Cluster, platform: Platform, pools: Reader[StockPool], executor: PoolExecutor) -> None:
        self._cluster = cluster
        self._platform = platform
        self._pools = pools
        self._executor = executor

    async def create(self, request: CreateStockPool, sent: Mapping[str, Any], owner: str = "") -> tuple[Job, bool]:
        """The job, and whether this call began it."""
        done, new = await carry_out(self._executor, request, sent, owner)
        deleted = not new and await self._executor.deleted(done.record)
        return job_view(done.record, self._executor, deleted=deleted), new

    async def get(self, namespace: str | None, name: str) -> StockPoolView:
        return pool_view(await self._find(self._key(namespace, name)))

    def list(self, namespace: str | None, wanted: Filter) -> ListPage[StockPoolView]:
        where = self._platform.allow(namespace or self._platform.pool_namespace)
        return list_page(self._pools.all(), wanted, pool_view, namespace=where)

    async def delete(self, namespace: str | None, name: str) -> None:
        """Deletes the pool that exists now. A later pool of the same name is safe: the UID is a precondition."""
        key = self._key(namespace, name)
        pool = await self._pools.live(key)
        if pool is None:
            raise _missing(key)
        await self._executor.settle(pool)
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


def _missing(key: Key) -> Missing:
    return Missing("stockpool", f"stock pool {key.name} does not exist in namespace {key.namespace}")
