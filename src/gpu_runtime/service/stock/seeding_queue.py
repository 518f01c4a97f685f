"""The queue that seeds stock in the background, a few batches at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.backoff import JitteredBackoff
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.service.operations.records import Operations, unfinished
from gpu_runtime.service.stock.seeding import Seeding

WORKERS = 2


@dataclass
class QueuedBatch:
    """A batch to seed. `resumed`: another executor may have worked on it, so its record is read again first."""

    record: Operation
    resumed: bool
    backoff: JitteredBackoff = field(default_factory=JitteredBackoff)


class SeedingQueue:
    """Seeds submitted batches. If the process dies, the sweeper finds the records and submits them again."""

    def __init__(self, seeding: Seeding, operations: Operations) -> None:
        self._seeding = seeding
        self._operations = operations
        self._queue: asyncio.Queue[QueuedBatch] = asyncio.Queue()
        self._known: set[str] = set()
        self._log = structlog.get_logger("seeding")

    def submit(self, record: Operation, *, resumed: bool) -> None:
        """Queues the record, unless this process already works on it."""
        if record.metadata.uid not in self._known:
            self._known.add(record.metadata.uid)
            self._queue.put_nowait(QueuedBatch(record, resumed))

    async def run(self) -> None:
        """Seeds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(group))

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            batch = await self._queue.get()
            if await self._try(batch):
                self._known.discard(batch.record.metadata.uid)
            else:
                # A batch that failed waits outside the queue: the workers go on with other batches.
                group.create_task(self._put_back(batch))

    async def _put_back(self, batch: QueuedBatch) -> None:
        await asyncio.sleep(batch.backoff.next())
        self._queue.put_nowait(batch)

    async def _try(self, batch: QueuedBatch) -> bool:
        """One attempt. True when this process need not try the batch again."""
        log = self._log.bind(operation_id=batch.record.spec.operationID)
        try:
            if batch.resumed:
                current = await self._operations.get_by_name(batch.record.metadata.name)
                if current is None or current.metadata.uid != batch.record.metadata.uid or not unfinished(current):
                    return True
                batch.record = current
            resumed, batch.resumed = batch.resumed, True
            done = await self._seeding.execute(batch.record, resumed=resumed)
            log.info("stock seeded", status=done.status.phase if done is not None else "gone")
        except (KubeError, ServiceError) as error:
            log.warning("seeding interrupted; will retry", problem=str(error))
            return False
        except Exception:
            log.exception("seeding failed unexpectedly")  # the sweeper submits the batch again
        return True
