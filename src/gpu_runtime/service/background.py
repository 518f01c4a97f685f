"""Work that outlives its request: stock is seeded here, one batch after another, until the process ends."""

from __future__ import annotations

import asyncio

import structlog

from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.backoff import JitteredBackoff
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.service.operations import Operations, unfinished
from gpu_runtime.service.stock import Seeding

WORKERS = 2


class SeedingQueue:
    """Seeds what was submitted. Memory only orders the work: what dies with the process is found by its record."""

    def __init__(self, seeding: Seeding, operations: Operations) -> None:
        self._seeding = seeding
        self._operations = operations
        self._queue: asyncio.Queue[tuple[Operation, bool]] = asyncio.Queue()
        self._known: set[str] = set()
        self._log = structlog.get_logger("seeding")

    def submit(self, record: Operation, *, resumed: bool) -> None:
        """Takes the record on, unless this process works on it already."""
        if record.metadata.uid not in self._known:
            self._known.add(record.metadata.uid)
            self._queue.put_nowait((record, resumed))

    async def run(self) -> None:
        """Works until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            record, resumed = await self._queue.get()
            try:
                await self._until_done(record, resumed)
            finally:
                self._known.discard(record.metadata.uid)

    async def _until_done(self, record: Operation, resumed: bool) -> None:
        backoff = JitteredBackoff()
        log = self._log.bind(operation_id=record.spec.operationID)
        while True:
            try:
                done = await self._seeding.execute(record, resumed=resumed)
                log.info("stock seeded", status=done.status.phase)
                return
            except KubeError as error:
                log.warning("seeding interrupted; going on shortly", problem=str(error))
            except Exception:
                log.exception("seeding failed unexpectedly")
                return
            await asyncio.sleep(backoff.next())
            try:
                current = await self._operations.named(record.metadata.name)
            except KubeError:
                continue
            if current is None or not unfinished(current):
                return
            record, resumed = current, True
