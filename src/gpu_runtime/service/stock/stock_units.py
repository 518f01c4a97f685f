"""The use cases of stock: seed, list, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import Clash, Missing
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.rest.views import Job, UnitView
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.listing import Filter, ListPage, list_page
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.stock.batch_executor import BatchExecutor
from gpu_runtime.service.stock.claim import holder
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.views import job_view, unit_view

MAX_ATTEMPTS = 5


class StockUnits:
    """Seeding returns a job; the units are created in the background."""

    def __init__(
        self,
        cluster: Cluster,
        platform: Platform,
        units: Reader[GPUUnit],
        seeding: Seeding,
        executor: BatchExecutor,
    ) -> None:
        self._cluster = cluster
        self._platform = platform
        self._units = units
        self._seeding = seeding
        self._executor = executor

    async def seed(self, request: CreateStockUnits, sent: Mapping[str, Any], owner: str = "") -> tuple[Job, bool]:
        """The job, and whether this call began it."""
        done, new = await carry_out(self._executor, request, sent, owner)
        return job_view(done.record, self._executor), new

    def list(self, wanted: Filter) -> ListPage[UnitView]:
        namespace = self._platform.stock_namespace
        return list_page(self._units.all(), wanted, lambda unit: unit_view(unit, namespace), namespace=namespace)

    async def delete(self, name: str) -> None:
        """Deletes unclaimed stock. Clash when the unit is claimed: the hand-over will delete it."""
        key = Key(self._platform.stock_namespace, name)
        for _ in range(MAX_ATTEMPTS):
            unit = await self._units.live(key)
            if unit is None:
                raise _missing(name)
            if holder(unit):
                raise Clash(f"stock unit {name} is being handed over; delete the new unit instead, or try again")
            meta = unit.metadata
            await self._seeding.unit_list.settle(unit)
            try:
                await self._cluster.delete(GPU_UNITS, key, uid=meta.uid, resource_version=meta.resourceVersion)
            except kube.NotFound as error:
                raise _missing(name) from error
            except kube.Conflict:
                continue  # a status or a claim was written in between; only a claim matters
            self._units.deleted(unit)
            return
        raise Clash(f"stock unit {name} keeps changing; send the request again")


def _missing(name: str) -> Missing:
    return Missing("stock_unit", f"stock unit {name} does not exist")
