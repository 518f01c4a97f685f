"""The gate of seeded stock: it becomes Ready only when its Operation lists its UID. docs/seeding.md says why."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import OPERATION
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.reasons import AWAITING_OPERATION
from gpu_runtime.api.v1alpha1.stock_batch import listed_uid, ordinal_of, place, seen_listed, unit_name
from gpu_runtime.controllers.gpuunit.admission import Refuse, Remove, Wait
from gpu_runtime.controllers.gpuunit.admitter import EXECUTOR_SECONDS, Settled
from gpu_runtime.controllers.gpuunit.readiness import Observed, readiness
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.controllers.product_kinds import GPU_UNITS
from gpu_runtime.controllers.readiness import invalid, waiting
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import NotFound


@dataclass(frozen=True)
class Listed:
    """The record lists the unit: it may be consumed."""


def listing(unit: GPUUnit, record: Operation | None) -> Listed | Wait | Remove | Refuse:
    """Whether the record lists this unit, may list it later (Wait), or never will (Remove). Pure.

    A record is kept while its stock lives. If the record is gone, an executor that was frozen made this unit after the
    record's removal. The unit holds resources but no data of a user, so it is removed.
    """
    if record is None:
        return Remove("its operation is gone")
    ordinal, name = ordinal_of(unit.metadata), record.metadata.name
    if unit.metadata.name != unit_name(place(record).name, ordinal):
        return Refuse(f"it has the annotations of number {ordinal} of operation {name}, but not the name: a copy?")
    succeeded = record.status.phase == "Succeeded"
    if succeeded and not record.status.units:
        return Listed()  # the record of an earlier version, which kept no list
    uid = listed_uid(record, ordinal)
    if uid == unit.metadata.uid:
        return Listed()
    if uid or succeeded:
        return Remove(f"number {ordinal} of operation {name} is another unit, {uid}")
    return Wait(f"operation {name} has not listed it yet")


def is_gated(unit: GPUUnit) -> bool:
    """Whether a batch made the stock unit and nobody has seen it listed. Stock made by hand has no record."""
    return ordinal_of(unit.metadata) > 0 and OPERATION in unit.metadata.labels and not seen_listed(unit)


@dataclass(frozen=True)
class StockGate:
    """Reads the record of a unit until the record lists the unit; then the unit's status remembers it."""

    client: Client
    records: OperationRecords
    clock: Clock

    async def before(self, unit: GPUUnit) -> None:
        """Removes a unit that its record can never list, and raises Settled. Only with a record that needs no read."""
        record = self.records.known(unit.metadata.annotations.get(OPERATION_UID, "")) if is_gated(unit) else None
        if record is not None and isinstance(decision := listing(unit, record), Remove):
            await self._remove(unit, decision.why)

    async def after(self, seen: Observed) -> Observed:
        """Keeps a unit that is not listed from becoming Ready. Its workload is built without waiting for the list."""
        unit = seen.unit
        if not is_gated(unit):
            return seen
        ready = readiness(seen).state == "ready"
        if not ready and self._age(unit) < EXECUTOR_SECONDS:
            return seen  # its executor is about to list it: a read now would be wasted
        name, uid = unit.metadata.labels[OPERATION], unit.metadata.annotations[OPERATION_UID]
        match decision := listing(unit, await self.records.find(name, uid)):
            case Listed():
                return replace(seen, listed=True)
            case Remove():
                await self._remove(unit, decision.why)
            case Refuse():
                raise invalid(decision.why)
            case Wait() if ready:
                raise waiting(AWAITING_OPERATION, decision.why)  # a change of the record brings the unit back
        return seen

    async def _remove(self, unit: GPUUnit, why: str) -> None:
        structlog.get_logger("stock").info("removing a unit", unit=str(unit.metadata.key), why=why)
        with suppress(NotFound):
            await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
        raise Settled

    def _age(self, unit: GPUUnit) -> float:
        created = unit.metadata.creationTimestamp
        return abs((self.clock.now() - created).total_seconds()) if created is not None else EXECUTOR_SECONDS
