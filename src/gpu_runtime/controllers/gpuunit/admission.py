"""Decides about an inert unit by the record of the operation that made it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
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
    """The operation can no longer commit this unit."""

    why: str


@dataclass(frozen=True)
class Wait:
    """The operation is still under way."""

    why: str


@dataclass(frozen=True)
class Refuse:
    """The operation is not a hand-over of stock, so the unit is left alone."""

    why: str


def admission(unit: GPUUnit, operations: Iterable[Operation]) -> Admit | Remove | Wait | Refuse:
    """The decision by the record with the UID that the unit names. UIDs are never reused, so a missing one is final."""
    uid = unit.metadata.annotations[OPERATION_UID]
    operation = next((each for each in operations if each.metadata.uid == uid), None)
    if operation is None:
        return Remove(f"its operation {uid} is gone")
    name = operation.metadata.key
    if operation.spec.type != "CreateGPUUnit":
        # A controller whose settings miss a stock namespace finds stock units here. Removing them would lose stock.
        return Refuse(
            f"operation {name} ({operation.spec.type}) made it: is {unit.metadata.namespace} a stock namespace?"
        )
    match operation.status.phase:
        case "Failed":
            return Remove(f"its operation {name} failed")
        case "Succeeded":
            choice = operation.status.decisions.stock
            return Admit(choice) if choice is not None else Refuse(f"operation {name} made it and consumed no stock")
    return Wait(f"operation {name} has not handed over its stock yet")
