"""What becomes of an inert unit, by the record of the operation that made it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation, StockChoice


@dataclass(frozen=True)
class Admit:
    """The operation is committed: the unit takes over the stock of its record."""

    choice: StockChoice


@dataclass(frozen=True)
class Remove:
    """The operation can never commit this unit any more."""

    why: str


@dataclass(frozen=True)
class Wait:
    """The operation is still under way."""

    why: str


def admission(unit: GPUUnit, operation: Operation | None) -> Admit | Remove | Wait:
    """The record decides, as it stands on the server; a UID never comes back, so what it says is final."""
    uid = unit.metadata.annotations[OPERATION_UID]
    if operation is None:
        return Remove(f"its operation {uid} is gone")
    name = operation.metadata.name
    if operation.metadata.uid != uid:
        return Remove(f"its operation {uid} is gone; {name} is another one")
    match operation.status.phase:
        case "Failed":
            return Remove(f"its operation {name} failed")
        case "Succeeded":
            choice = operation.status.decisions.stock
            return Admit(choice) if choice is not None else Remove(f"its operation {name} consumed no stock")
    return Wait(f"operation {name} has not handed over its stock yet")
