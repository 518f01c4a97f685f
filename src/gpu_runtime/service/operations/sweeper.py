"""The sweeper: ends what its executor left, in every replica, at any time.

How long something has not moved only decides when it is worth a look. What is done about it is decided by live reads
and writes with preconditions, and is right even if the executor still lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from datetime import timedelta
from random import Random

import structlog

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import Conflict, KubeError, NotFound
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, STOCK_POOLS, Cluster
from gpu_runtime.service.operations.records import Operations, batch_of, unfinished
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.stock.claim import CLAIMED_FOR, Claims, holder
from gpu_runtime.service.stock.pools import StockPools
from gpu_runtime.service.stock.seeding_queue import SeedingQueue
from gpu_runtime.service.units.handover import HandOver

RETIRE_SECONDS = 3600.0
BY_OPERATION = "operation"
ABANDONED = "nobody worked on it any more, so it was undone; send the request again"


def by_operation(unit: GPUUnit) -> Iterable[str]:
    """Index function: units by the name of the Operation that made them."""
    name = unit.metadata.labels.get(labels.OPERATION)
    return (name,) if name else ()


class Idle:
    """Since when this process has seen objects unchanged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def seconds(self, obj: Object) -> float:
        """How long the object has had its version, as far as this process saw it."""
        meta, now = obj.metadata, self._clock.monotonic()
        version, since = self._since.get(meta.uid, ("", now))
        if version != meta.resourceVersion:
            since = now
        self._since[meta.uid] = (meta.resourceVersion, since)
        return now - since

    def forget_others(self, uids: set[str]) -> None:
        self._since = {uid: entry for uid, entry in self._since.items() if uid in uids}


class Sweeper:
    """Looks at unfinished operations and claimed stock, and now and then at finished operations."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        handover: HandOver,
        pools: StockPools,
        queue: SeedingQueue,
        *,
        unfinished: Store[Operation],
        units: Store[GPUUnit],
        pool_cache: Store[StockPool],
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._platform = platform
        self._handover = handover
        self._pools = pools
        self._queue = queue
        self._unfinished = unfinished
        self._units = units
        self._pool_cache = pool_cache
        self._clock = clock
        self._rng = rng or Random()  # noqa: S311  keeps replicas from sweeping in step, guards nothing
        self._idle = Idle(clock)
        self._claims = Claims(cluster)
        self._log = structlog.get_logger("sweeper")

    async def run(self) -> None:
        """Sweeps until cancelled."""
        retired = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._platform.abandoned_after_seconds * self._rng.uniform(0.2, 0.4))
            await self.sweep(older_than=self._platform.abandoned_after_seconds)
            if self._clock.monotonic() - retired >= RETIRE_SECONDS:
                retired = self._clock.monotonic()
                await self._outlive(self.retire(), "finished operations")

    async def sweep(self, older_than: float = 0.0) -> None:
        """One look at everything that has not moved for so many seconds."""
        records = [record for record in self._unfinished if self._idle.seconds(record) >= older_than]
        claimed = [unit for unit in self._units if holder(unit)]
        stuck = [unit for unit in claimed if self._idle.seconds(unit) >= older_than]
        self._idle.forget_others({obj.metadata.uid for obj in (*self._unfinished, *claimed)})
        for record in records:
            await self._outlive(self.take_up(record), record.metadata.name)
        for unit in stuck:
            await self._outlive(self.judge_claim(unit), str(unit.metadata.key))

    async def take_up(self, cached: Operation) -> None:
        """Goes on with an abandoned job; undoes an abandoned hand-over."""
        record = await self._operations.named(cached.metadata.name)
        if record is None or record.metadata.uid != cached.metadata.uid:
            return
        if record.spec.type == "CreateGPUUnit":
            await self._end_handover(record)
        elif not unfinished(record):
            return
        elif record.spec.type == "CreateStockPool":
            await self._pools.execute(record)
        elif record.spec.type == "CreateStockUnits":
            self._queue.submit(record, resumed=True)

    async def judge_claim(self, stock: GPUUnit) -> None:
        """Frees a claim that no record stands for; goes forward with a committed one, back with a failed one."""
        name = stock.metadata.annotations.get(CLAIMED_FOR, "")
        record = await self._operations.named(name) if name else None
        choice = record.status.decisions.stock if record is not None else None
        if record is None or record.metadata.uid != holder(stock) or choice is None or choice.uid != stock.metadata.uid:
            self._log.info("freeing a claim that no operation stands for", stock=str(stock.metadata.key))
            try:
                await self._claims.free(stock)
            except (Conflict, NotFound):
                return  # it moved: the next look judges what it is then
        elif record.status.phase == "Succeeded":
            await self._handover.complete(record)
        elif record.status.phase == "Failed":
            await self._handover.undo(record)

    async def _end_handover(self, record: Operation) -> None:
        match record.status.phase:
            case "Succeeded":
                await self._handover.complete(record)
            case "Failed":
                await self._handover.undo(record)
            case _:
                self._log.info("undoing an abandoned hand-over", operation_id=record.spec.operationID)
                await self._handover.give_up(record, "service_unavailable", ABANDONED)

    async def retire(self) -> None:
        """Removes records of which nothing is left, a day after that became so."""
        token: str | None = None
        while True:
            page = await self._cluster.page(Query(OPERATIONS, self._operations.namespace), token=token)
            for record in page.items:
                if not unfinished(record):
                    await self._outlive(self._retire(record), record.metadata.name)
            token = page.token
            if not token:
                return

    async def _retire(self, record: Operation) -> None:
        # The cache may not show yet what was made a moment ago, so only the server can say that nothing is left.
        if self._cached(record) or await self._lives(record):
            return
        since = record.status.deletionTime or record.status.completionTime
        if record.status.deletionTime is None and record.status.phase == "Succeeded":
            await self._operations.save(record, deletionTime=self._clock.now())
        elif since is None or self._clock.now() - since >= timedelta(seconds=self._platform.retention_seconds):
            await self._operations.remove(record)

    def _cached(self, record: Operation) -> bool:
        """Whether the cache has something that the operation made."""
        if record.spec.type == "CreateStockUnits":
            return bool(self._units.find(BY_OPERATION, record.metadata.name))
        if not record.status.objects:
            return False
        made = record.status.objects[0]
        cache: Store[StockPool] | Store[GPUUnit] = (
            self._pool_cache if record.spec.type == "CreateStockPool" else self._units
        )
        found = cache.get(Key(made.namespace, made.name))
        return found is not None and found.metadata.uid == made.uid

    async def _lives(self, record: Operation) -> bool:
        """Whether the server has something that the operation made."""
        if record.spec.type == "CreateStockUnits":
            mine = f"{labels.OPERATION}={record.metadata.name}"
            page = await self._cluster.page(Query(GPU_UNITS, batch_of(record).namespace, labels=mine), limit=1)
            return bool(page.items or page.skipped)
        if not record.status.objects:
            return False
        made = record.status.objects[0]
        key, found = Key(made.namespace, made.name), None
        with suppress(NotFound):
            if record.spec.type == "CreateStockPool":
                found = (await self._cluster.get(STOCK_POOLS, key)).metadata.uid
            else:
                found = (await self._cluster.get(GPU_UNITS, key)).metadata.uid
        return found == made.uid

    async def _outlive(self, work: Awaitable[None], what: str) -> None:
        """One object in trouble must not keep the sweeper from the others."""
        try:
            await work
        except (KubeError, ServiceError) as error:
            self._log.warning("not swept; the next look tries again", what=what, problem=str(error))
        except Exception:
            self._log.exception("sweeping failed unexpectedly", what=what)
