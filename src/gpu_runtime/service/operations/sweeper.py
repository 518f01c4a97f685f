"""The sweeper finishes or undoes operations that their executor abandoned. It runs in every replica.

An object that has not changed for some time is only a hint to look at it. Live reads and writes with preconditions
decide what to do, so the result is correct even if the executor still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from functools import partial
from random import Random
from typing import assert_never

import structlog

from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.service.cluster import OPERATIONS, Cluster
from gpu_runtime.service.operations.executor import HeldObject
from gpu_runtime.service.operations.records import Operations, unfinished
from gpu_runtime.service.operations.registry import Registry
from gpu_runtime.service.paging import list_all
from gpu_runtime.service.platform import Platform

RETIRE_SECONDS = 3600.0


class Idle:
    """Measures for how long objects have not changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def seconds(self, obj: Object) -> float:
        """Seconds since this process first saw this version of the object."""
        meta, now = obj.metadata, self._clock.monotonic()
        version, since = self._since.get(meta.uid, ("", now))
        if version != meta.resourceVersion:
            since = now
        self._since[meta.uid] = (meta.resourceVersion, since)
        return now - since

    def forget_others(self, uids: set[str]) -> None:
        self._since = {uid: entry for uid, entry in self._since.items() if uid in uids}


class Sweeper:
    """Sweeps unfinished operations and the objects that they hold, and from time to time removes old records."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        registry: Registry,
        unfinished: Store[Operation],
        *,
        clock: Clock = SYSTEM_CLOCK,
        rng: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._platform = platform
        self._registry = registry
        self._unfinished = unfinished
        self._clock = clock
        self._rng = rng or Random()  # noqa: S311  spreads the sweeps of replicas; not for security
        self._idle = Idle(clock)
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
        """Handles each object that has not changed for `older_than` seconds."""
        seen = [HeldObject(record, partial(self.take_up, record)) for record in self._unfinished]
        seen += [held for executor in self._registry for held in executor.held()]
        stuck = [each for each in seen if self._idle.seconds(each.obj) >= older_than]
        self._idle.forget_others({each.obj.metadata.uid for each in seen})
        for each in stuck:
            await self._outlive(each.judge(), str(each.obj.metadata.key))

    async def take_up(self, cached: Operation) -> None:
        """Lets the record's executor finish or undo an abandoned operation."""
        record = await self._operations.get_by_name(cached.metadata.name)
        if record is None or record.metadata.uid != cached.metadata.uid:
            return
        executor = self._registry.of(record)
        if executor is None:
            return
        match record.status.phase:
            case "Pending" | "Running":
                await executor.resume(record)
            case "Succeeded":
                await executor.complete(record)
            case "Failed":
                await executor.undo(record)
            case _:
                assert_never(record.status.phase)

    async def retire(self) -> None:
        """Deletes records whose objects have been gone for the retention time."""
        async for record in list_all(self._cluster, Query(OPERATIONS, self._operations.namespace)):
            if not unfinished(record):
                await self._outlive(self._retire(record), record.metadata.name)

    async def _retire(self, record: Operation) -> None:
        # The cache may not contain a new object yet, so only the server can confirm that no object is left.
        executor = self._registry.of(record)
        if executor is None or await executor.lives(record):
            return
        since = record.status.deletionTime or record.status.completionTime
        if record.status.deletionTime is None and record.status.phase == "Succeeded":
            await self._operations.save(record, deletionTime=self._clock.now())
        elif since is None or self._clock.now() - since >= timedelta(seconds=self._platform.retention_seconds):
            await self._operations.remove(record)

    async def _outlive(self, work: Awaitable[None], what: str) -> None:
        """Logs errors: one object that fails must not stop the sweep of the others."""
        try:
            await work
        except (KubeError, ServiceError) as error:
            self._log.warning("not swept; the next sweep tries again", what=what, problem=str(error))
        except Exception:
            self._log.exception("sweeping failed unexpectedly", what=what)
