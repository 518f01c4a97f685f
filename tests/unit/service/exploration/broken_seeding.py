"""Copies of the seeding protocol with one rule taken out each: the exploration must notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.controllers.gpuunit.admitter import Settled
from gpu_runtime.controllers.gpuunit.readiness import Observed
from gpu_runtime.controllers.gpuunit.stock_gate import StockGate
from gpu_runtime.service.cluster import OPERATIONS, Cluster
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.stock.seeding import Seeding, SeedingState, Together
from gpu_runtime.service.stock.unit_list import UnitList
from unit.service.exploration.seeding import Rules


class _With(Seeding):
    """Seeding with another listing."""

    listing_type: type[UnitList]

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        picker: StockPicker,
        namespace: str,
        together: Together[tuple[int, str | Exception]],
    ) -> None:
        super().__init__(cluster, operations, picker, namespace, together)
        self.unit_list = self.listing_type(cluster, operations)


class _Unsettled(UnitList):
    async def settle(self, unit: GPUUnit) -> None:
        return


class DeleteWithoutSettling(_With):
    """A unit that an operator deletes is not listed first: the batch makes it again."""

    listing_type = _Unsettled


class _Keeps(UnitList):
    async def _remove_units(self, record: Operation, units: Mapping[int, str]) -> None:
        return

    async def _remove(self, key: Key, uid: str) -> None:
        return


class KeepDuplicates(_With):
    """An executor that lost its write leaves what it made."""

    listing_type = _Keeps


class _RemovesFromFailed(UnitList):
    async def after_lost_write(self, record: Operation, held: Mapping[int, str]) -> Operation | None:
        current = await self._operations.get_by_name(record.metadata.name)
        if current is not None:
            await self._remove_units(record, held)
        return current


class RemoveWhatMayBeListed(_With):
    """An executor that lost its write removes all that it made, also what another executor is about to list."""

    listing_type = _RemovesFromFailed


class ListWithoutVersion(Seeding):
    """The list is written onto whatever version the record has, over the entries of others."""

    async def _write(self, state: SeedingState) -> Operation | None:
        units = list(state.record.status.units)
        current = await self._operations.get_by_name(state.record.metadata.name)
        if current is None:
            return None
        state.record = current
        units += [""] * (state.request.replicas - len(units))
        for ordinal, uid in state.held.items():
            units[ordinal - 1] = uid
        if not all(units):
            return await self._operations.save(current, units=units)
        live = await self._cluster.get(OPERATIONS, current.metadata.key)
        return await self._operations.succeed(live, units=units)


class Ungated(StockGate):
    """The controller calls stock Ready without looking into the record."""

    async def before(self, unit: GPUUnit) -> None:
        return

    async def after(self, seen: Observed) -> Observed:
        return replace(seen, listed=True)


class RemovesNothing(StockGate):
    """The controller leaves units whose number is another unit's."""

    async def _remove(self, unit: GPUUnit, why: str) -> None:
        raise Settled


BROKEN = {
    "delete without settling": Rules(DeleteWithoutSettling),
    "nobody removes duplicates": Rules(KeepDuplicates, RemovesNothing),
    "remove what may be listed": Rules(RemoveWhatMayBeListed),
    "list without version": Rules(ListWithoutVersion),
    "ungated": Rules(gate=Ungated),
}
