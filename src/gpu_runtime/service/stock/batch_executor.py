"""Operations of type CreateStockUnits: the client gets a job; a queue creates the units."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.validation import FieldError
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Query
from gpu_runtime.rest.errors import InvalidRequest, Missing, ServiceError, Unavailable
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.operations.executor import Done, Executor
from gpu_runtime.service.operations.records import NewOperation, Operations, batch_of, unfinished
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.seeding import OPERATION_TYPE, Seeding, batch_prefix
from gpu_runtime.service.stock.seeding_queue import SeedingQueue

BY_OPERATION = "operation"


def by_operation(unit: GPUUnit) -> Iterable[str]:
    """Index function: units by the name of the Operation that created them."""
    name = unit.metadata.labels.get(labels.OPERATION)
    return (name,) if name else ()


class BatchExecutor(Executor[CreateStockUnits, Done]):
    """Puts batches on the queue, which creates their units after the reply."""

    operation_type = OPERATION_TYPE
    job_type = "seed_stock_units"
    request_type = CreateStockUnits
    max_attempts = 5

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
        super().__init__(operations)
        self._cluster = cluster
        self._platform = platform
        self._units = units
        self._namespaces = namespaces
        self._seeding = seeding
        self._queue = queue
        self._waiter = waiter

    def check(self, request: CreateStockUnits) -> None:
        if request.replicas > self._platform.most_stock_units:
            most = f"must be at most {self._platform.most_stock_units} in one request"
            raise InvalidRequest.of([FieldError("replicas", most)])

    async def begin(self, wanted: NewOperation, request: CreateStockUnits) -> tuple[Operation, bool]:
        try:
            await self._namespaces.require(self._platform.stock_namespace)
        except Missing as error:
            raise Unavailable(f"the platform is not installed: {error.message}") from error
        await self._seeding.check_known(request)
        where = Key(self._platform.stock_namespace, batch_prefix(request))
        record, new = await self._operations.begin(wanted, batch=where)
        if new:
            try:
                await self._seeding.check_live(record)
            except ServiceError:
                await self._operations.remove(record)
                raise
        return record, new

    async def execute(self, record: Operation) -> Done:
        self._queue.submit(record, resumed=False)
        return Done(record)

    async def replay(self, record: Operation) -> Done | None:
        current = await self._again(record)
        return Done(current) if current is not None else None

    async def resume(self, record: Operation) -> None:
        self._queue.submit(record, resumed=True)

    def object_key(self, record: Operation) -> Key:
        return batch_of(record)

    async def lives(self, record: Operation) -> bool:
        if self._units.store.find(BY_OPERATION, record.metadata.name):
            return True
        mine = f"{labels.OPERATION}={record.metadata.name}"
        page = await self._cluster.page(Query(GPU_UNITS, batch_of(record).namespace, labels=mine), limit=1)
        return bool(page.items or page.skipped)

    async def _again(self, record: Operation) -> Operation | None:
        """A replay: waits briefly for a running batch, resumes a failed one. None: the record is gone."""
        if record.status.phase == "Failed":
            try:
                record = await self._operations.reopen(record)
            except (kube.Conflict, kube.NotFound):
                return await self._operations.get_by_name(record.metadata.name)
            self._queue.submit(record, resumed=True)
        if unfinished(record):
            await self._waiter.wait(record, self._platform.replay_seconds)
            current = await self._operations.get_by_name(record.metadata.name)
            if current is None or current.metadata.uid != record.metadata.uid:
                return current
            record = current
        if unfinished(record):
            # The process of the first executor may have died; two executors of one batch are safe.
            self._queue.submit(record, resumed=True)
        return record
