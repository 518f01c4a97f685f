"""The use cases of stock: seed it, list it, take it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.validation import FieldError
from gpu_runtime.kube import errors as kube
from gpu_runtime.rest.errors import Clash, InvalidRequest, Missing, ServiceError, Unavailable
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.rest.views import Job, UnitView
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.listing import Filter, Listed, listed
from gpu_runtime.service.operations.records import Ask, Operations, check_same, unfinished
from gpu_runtime.service.operations.request_hash import request_hash
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.claim import holder
from gpu_runtime.service.stock.seeding import Seeding, batch_prefix
from gpu_runtime.service.stock.seeding_queue import SeedingQueue
from gpu_runtime.service.views import job_view, unit_view

MOST_TURNS = 5


class StockUnits:
    """Seeding answers with a job; the units are made in the background."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        units: Reader[GPUUnit],
        namespaces: Namespaces,
        seeding: Seeding,
        queue: SeedingQueue,
        waiter: OperationWaiter,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._platform = platform
        self._units = units
        self._namespaces = namespaces
        self._seeding = seeding
        self._queue = queue
        self._waiter = waiter

    async def seed(self, request: CreateStockUnits, sent: Mapping[str, Any], owner: str = "") -> tuple[Job, bool]:
        """The job, and whether it was begun by this very request."""
        if request.replicas > self._platform.most_stock_units:
            most = f"must be at most {self._platform.most_stock_units} in one request"
            raise InvalidRequest.of([FieldError("replicas", most)])
        ask = Ask("CreateStockUnits", request.operationID, request_hash(CreateStockUnits, sent), sent, owner)
        for _ in range(MOST_TURNS):
            record = await self._operations.find(ask.type, ask.operation_id)
            if record is None:
                record, new = await self._begin(ask, request)
                if new:
                    self._queue.submit(record, resumed=False)
                    return job_view(record), True
            check_same(record, ask)
            record = await self._again(record)
            if record is not None:
                check_same(record, ask)  # the record may be new: another request may have taken the id since
                return job_view(record), False
        raise Unavailable("the operation was given up several times; send the request again")

    def list(self, wanted: Filter) -> Listed[UnitView]:
        namespace = self._platform.stock_namespace
        return listed(self._units.all(), wanted, lambda unit: unit_view(unit, namespace), namespace=namespace)

    async def delete(self, name: str) -> None:
        """Takes stock back that nobody claimed; one that is being handed over belongs to that hand-over."""
        key = Key(self._platform.stock_namespace, name)
        for _ in range(MOST_TURNS):
            unit = await self._units.live(key)
            if unit is None:
                raise _missing(name)
            if holder(unit):
                raise Clash(f"stock unit {name} is being handed over; delete the unit that it becomes, or try again")
            meta = unit.metadata
            await self._seeding.unit_list.settle(unit)
            try:
                await self._cluster.delete(GPU_UNITS, key, uid=meta.uid, resource_version=meta.resourceVersion)
            except kube.NotFound as error:
                raise _missing(name) from error
            except kube.Conflict:
                continue  # a status or a claim was written since; a claim decides, a status does not
            self._units.deleted(unit)
            return
        raise Clash(f"stock unit {name} keeps changing; send the request again")

    async def _begin(self, ask: Ask, request: CreateStockUnits) -> tuple[Operation, bool]:
        try:
            await self._namespaces.require(self._platform.stock_namespace)
        except Missing as error:
            raise Unavailable(f"the platform is not installed: {error.message}") from error
        await self._seeding.check_known(request)
        where = Key(self._platform.stock_namespace, batch_prefix(request))
        record, new = await self._operations.begin(ask, batch=where)
        if new:
            try:
                await self._seeding.check_live(record)
            except ServiceError:
                await self._operations.remove(record)
                raise
        return record, new

    async def _again(self, record: Operation) -> Operation | None:
        """A replay: waits a moment for a batch that is under way, resumes one that failed. None: the record is gone."""
        if record.status.phase == "Failed":
            try:
                record = await self._operations.reopen(record)
            except (kube.Conflict, kube.NotFound):
                return await self._operations.named(record.metadata.name)
            self._queue.submit(record, resumed=True)
        if unfinished(record):
            await self._waiter.wait(record, self._platform.replay_seconds)
            current = await self._operations.named(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                return current
            record = current
        if unfinished(record):
            # The first executor may have died with its process; two executors of one batch do no harm.
            self._queue.submit(record, resumed=True)
        return record


def _missing(name: str) -> Missing:
    return Missing("stock_unit", f"there is no stock unit {name}")
