"""Seeding creates the stock units of a batch, each number once. docs/seeding.md describes the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from gpu_runtime.api.meta.names import derived, slug
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import Operation, OperationType
from gpu_runtime.api.v1alpha1.stock_batch import listed_uid, unit_name, with_units
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.client import Query
from gpu_runtime.rest.errors import ServiceError, SpecConflict, Unavailable
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, Cluster
from gpu_runtime.service.kubernetes_errors import CLIENT_ERRORS, refusal
from gpu_runtime.service.operations.records import UNFINISHED, Operations, batch_of, operation_metadata, unfinished
from gpu_runtime.service.paging import list_all
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.stock.unit_list import UnitList
from gpu_runtime.service.stock.unit_size import UNIT_SIZE, UnitSize

OPERATION_TYPE: OperationType = "CreateStockUnits"
CONCURRENCY = 8
# Units created between two writes of the record: 1,000 units cost 20 writes.
CHUNK = 50
# An executor stops after more rounds than this in a row without progress.
MOST_STALLED = 5

R = TypeVar("R")
Work = Callable[[], Awaitable[R]]
Together = Callable[[Sequence[Work[R]]], Awaitable[list[R]]]


async def in_parallel(works: Sequence[Work[R]]) -> list[R]:
    """Awaits all, at most CONCURRENCY at a time."""
    turn = asyncio.Semaphore(CONCURRENCY)

    async def one(work: Work[R]) -> R:
        async with turn:
            return await work()

    return list(await asyncio.gather(*(one(work) for work in works)))


@dataclass
class SeedingState:
    """What one executor knows. `held`: UIDs of units that exist and that the record does not list yet."""

    record: Operation
    request: CreateStockUnits
    held: dict[int, str] = field(default_factory=dict)
    refused: ServiceError | None = None
    stalled: int = 0

    def missing(self) -> list[int]:
        numbers = range(1, self.request.replicas + 1)
        return [ordinal for ordinal in numbers if not listed_uid(self.record, ordinal) and ordinal not in self.held]


class Seeding:
    """Executes operations of type CreateStockUnits."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        picker: StockPicker,
        namespace: str,
        together: Together[tuple[int, str | Exception]] = in_parallel,
    ) -> None:
        self._cluster = cluster
        self._operations = operations
        self._picker = picker
        self._namespace = namespace
        self._together = together
        self.unit_list = UnitList(cluster, operations)

    async def check_known(self, request: CreateStockUnits) -> None:
        """SpecConflict when stock of this spec has another size. Checked before the record is written.

        The cache only selects the units to read live: stock that was just deleted must not block a new size.
        """
        wanted = UnitSize.of(request)
        for cached in self._picker.cached(request.specName):
            if UnitSize.of(cached.spec) == wanted:
                continue
            try:
                unit = await self._cluster.get(GPU_UNITS, cached.metadata.key)
            except kube.NotFound:
                continue
            if unit.metadata.deletionTimestamp is None and UnitSize.of(unit.spec) != wanted:
                raise _conflict(request.specName, UnitSize.of(unit.spec), wanted)

    async def check_live(self, record: Operation) -> None:
        """The same for all stock, after the record is written: of two conflicting batches, one sees the other."""
        request = parse(CreateStockUnits, record.spec.request)
        wanted = UnitSize.of(request)
        others = f"{labels.SPEC_NAME}={request.specName},{UNIT_SIZE}!={wanted.digest}"
        async for unit in list_all(self._cluster, Query(GPU_UNITS, self._namespace, labels=others)):
            if UnitSize.of(unit.spec) != wanted:
                raise _conflict(request.specName, UnitSize.of(unit.spec), wanted)
        async for other in list_all(self._cluster, Query(OPERATIONS, record.metadata.namespace, labels=UNFINISHED)):
            if other.spec.type != OPERATION_TYPE or other.metadata.uid == record.metadata.uid:
                continue
            rival = parse(CreateStockUnits, other.spec.request)
            if rival.specName == request.specName and UnitSize.of(rival) != wanted:
                raise _conflict(request.specName, UnitSize.of(rival), wanted)

    async def execute(self, record: Operation, *, resumed: bool) -> Operation | None:
        """Creates the missing units and finishes the record; None when the record is gone.

        Safe with several executors and retries. KubeError or Unavailable: try again later.
        """
        state = SeedingState(record, parse(CreateStockUnits, record.spec.request))
        if resumed:  # the process that wrote the record may have died before this check
            try:
                await self.check_live(record)
            except SpecConflict as error:
                state.refused = error
        while True:
            if state.refused is None:
                await self._make(state, state.missing()[:CHUNK])
            current = await self._write(state)
            if current is None or not unfinished(current):
                return current
            progress = len(state.missing()) + len(state.held)
            state.record = current
            state.held = {ordinal: uid for ordinal, uid in state.held.items() if not listed_uid(current, ordinal)}
            state.stalled = 0 if len(state.missing()) + len(state.held) < progress else state.stalled + 1
            if state.stalled > MOST_STALLED:
                raise Unavailable("units of this batch are still being deleted; the batch continues later")

    async def _make(self, state: SeedingState, ordinals: Sequence[int]) -> None:
        """Creates these units and adds their UIDs to `held`. A number whose old unit is still being deleted waits."""

        async def make(ordinal: int) -> tuple[int, str | Exception]:
            try:
                return ordinal, await self._make_one(state, ordinal)
            except (kube.KubeError, ServiceError) as error:
                return ordinal, error

        results = await self._together([partial(make, ordinal) for ordinal in ordinals])
        state.held |= {ordinal: result for ordinal, result in results if isinstance(result, str) and result}
        for _, result in results:
            if isinstance(result, CLIENT_ERRORS):
                state.refused = refusal(result)
            elif isinstance(result, ServiceError):
                state.refused = result
            elif isinstance(result, Exception):
                raise result

    async def _make_one(self, state: SeedingState, ordinal: int) -> str:
        """The unit's UID; empty when a unit of this name is being deleted or was deleted just now."""
        wanted = stock_unit(state.record, state.request, ordinal)
        try:
            return (await self._cluster.create(GPU_UNITS, wanted)).metadata.uid
        except kube.AlreadyExists:
            return await self.unit_list.adopt(state.record, wanted.metadata.key)
        except CLIENT_ERRORS:
            # The server checks quotas before names: the quota may be full because our own unit already exists.
            if uid := await self.unit_list.adopt(state.record, wanted.metadata.key):
                return uid
            raise

    async def _write(self, state: SeedingState) -> Operation | None:
        """Lists the held units, and ends the record if it can end. The record after that; None if it is gone."""
        record, units = state.record, with_units(state.record, state.held)
        try:
            if state.refused is not None:
                error = state.refused
                message = f"{error.message}; created units stay, and the same request continues from there"
                return await self._operations.fail(record, error.code, message, settled=True, units=units)
            if not state.missing():
                return await self._operations.succeed(record, units=units)
            if state.held:
                return await self._operations.save(record, units=units)
        except (kube.Conflict, kube.NotFound):
            return await self.unit_list.after_lost_write(record, state.held)
        return await self.unit_list.after_lost_write(record, {})


def batch_prefix(request: CreateStockUnits) -> str:
    """Prefix of the names of the operation's units."""
    return derived(f"stock-{slug(request.specName)}"[:30], OPERATION_TYPE, request.operationID, limit=57)


def stock_unit(record: Operation, request: CreateStockUnits, ordinal: int) -> GPUUnit:
    """One stock unit: the built-in image, and only a size."""
    where = batch_of(record)
    name = unit_name(where.name, ordinal)
    made_labels, made_notes = operation_metadata(record)
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=where.namespace,
            labels={
                labels.APP_NAME: labels.GPU_UNIT_APP,
                labels.MANAGED_BY: labels.MANAGER,
                labels.UNIT: name,
                labels.SPEC_NAME: request.specName,
                UNIT_SIZE: UnitSize.of(request).digest,
                **made_labels,
            },
            annotations={
                **made_notes,
                notes.STOCK_ORDINAL: str(ordinal),
                notes.STOCK_REPLICAS: str(request.replicas),
            },
        ),
        spec=GPUUnitSpec(specName=request.specName, cpu=request.cpu, memory=request.memory, gpu=request.gpu),
    )


def _conflict(spec: str, there: UnitSize, wanted: UnitSize) -> SpecConflict:
    return SpecConflict(
        f"spec {spec} has the size ({there}), not ({wanted}): use another spec name, "
        "or delete the stock of this spec first"
    )
