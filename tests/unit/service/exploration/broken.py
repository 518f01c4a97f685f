"""Copies of the hand-over with one rule taken out each: the exploration must notice."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.provenance import provenance, source_of
from gpu_runtime.controllers.gpuunit.admitter import Admitter
from gpu_runtime.controllers.readiness import waiting
from gpu_runtime.kube import errors as kube
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, Cluster
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver, HandOverState, inert_unit


class SourceAtCreate(HandOver):
    """The unit is born with its provenance, instead of getting it from the committed record."""

    async def _create(self, state: HandOverState, stock: GPUUnit) -> GPUUnit | None:
        wanted = inert_unit(state.record, stock)
        notes = {**wanted.metadata.annotations, **provenance(state.choice)}
        wanted = replace(wanted, metadata=replace(wanted.metadata, annotations=notes))
        try:
            return await self._cluster.create(GPU_UNITS, wanted)
        except kube.AlreadyExists:
            return await self._existing(state, wanted)


class CommitWithoutVersion(HandOver):
    """The commit does not mind which version of the record it was decided on."""

    def __init__(self, cluster: Cluster, operations: Operations, picker: StockPicker, storages: Reservations) -> None:
        super().__init__(cluster, _Careless(cluster, operations), picker, storages)


class _Careless(Operations):
    def __init__(self, cluster: Cluster, like: Operations) -> None:
        super().__init__(cluster, like.namespace, like._clock)

    async def succeed(self, record: Operation, **changes: Any) -> Operation:
        live = await self._cluster.get(OPERATIONS, record.metadata.key)
        if live.metadata.uid == record.metadata.uid and live.status.phase == "Pending":
            record = live
        return await super().succeed(record, **changes)


class SweepWithoutVersion(HandOver):
    """The sweeper undoes a pending operation without moving its record to Failed first."""

    async def give_up(self, record: Operation, code: str, message: str) -> None:
        await self.undo(record)


class ClaimTakenOver(HandOver):
    """An executor that lost a claim helps itself: a claim is no longer the one owner's."""

    def __init__(self, cluster: Cluster, operations: Operations, picker: StockPicker, storages: Reservations) -> None:
        super().__init__(cluster, operations, picker, storages)
        claims = self._claims

        async def take(choice: Any, record: Operation, cached: GPUUnit | None) -> GPUUnit | None:
            stock = await claims.read(choice)
            if stock is None:
                return None
            claim = {"runtime.lokiwager.io/claimed-by": record.metadata.uid}
            return await claims._annotate(stock, claim)

        claims.take = take  # type: ignore[method-assign]


class DeleteBeforeCommit(HandOver):
    """The stock goes before the operation is committed: what is undone then is lost."""

    async def _create(self, state: HandOverState, stock: GPUUnit) -> GPUUnit | None:
        unit = await super()._create(state, stock)
        if unit is not None:
            await self._claims.consume(state.choice, state.record.metadata.uid, None)
        return unit


class BuildBesideStock(Admitter):
    """The controller builds without waiting for the stock and its pod."""

    async def release(self, unit: GPUUnit) -> None:
        return


class BuildBesidePods(Admitter):
    """The controller waits for the stock, and not for its pod."""

    async def release(self, unit: GPUUnit) -> None:
        source = source_of(unit)
        stock = self.caches.units.get(source.key) if source is not None else None
        if source is not None and stock is not None and stock.metadata.uid == source.uid:
            raise waiting("AwaitingStock", "not released yet")


BROKEN: tuple[type[HandOver], ...] = (
    SourceAtCreate,
    CommitWithoutVersion,
    SweepWithoutVersion,
    ClaimTakenOver,
    DeleteBeforeCommit,
)
BROKEN_CONTROLLERS: tuple[type[Admitter], ...] = (BuildBesideStock, BuildBesidePods)
