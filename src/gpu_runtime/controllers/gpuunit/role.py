"""What a unit is, by where it lives and by what its annotations say."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import (
    OPERATION_UID,
    SOURCE_STOCK_NAME,
    SOURCE_STOCK_NAMESPACE,
    SOURCE_STOCK_NODE,
    SOURCE_STOCK_UID,
)
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import StockChoice
from gpu_runtime.config import ControllerManagerSettings


def is_stock(unit: GPUUnit, settings: ControllerManagerSettings) -> bool:
    """Whether the unit is a reservation."""
    return unit.metadata.namespace in settings.stock.namespaces


@dataclass(frozen=True)
class Source:
    """The stock unit that an active unit consumed."""

    key: Key
    uid: str
    node: str = ""


def source_of(unit: GPUUnit) -> Source | None:
    """The provenance of a unit; None for one that consumed no stock, or is not admitted yet."""
    notes = unit.metadata.annotations
    if not (uid := notes.get(SOURCE_STOCK_UID, "")):
        return None
    key = Key(notes.get(SOURCE_STOCK_NAMESPACE, ""), notes.get(SOURCE_STOCK_NAME, ""))
    return Source(key, uid, notes.get(SOURCE_STOCK_NODE, ""))


def provenance(choice: StockChoice) -> dict[str, str]:
    """The annotations that admit a unit: from then on it is live."""
    notes = {SOURCE_STOCK_NAME: choice.name, SOURCE_STOCK_NAMESPACE: choice.namespace, SOURCE_STOCK_UID: choice.uid}
    return notes | ({SOURCE_STOCK_NODE: choice.nodeName} if choice.nodeName else {})


def is_inert(unit: GPUUnit) -> bool:
    """Whether an operation made the unit and nobody has admitted it: nothing may be built for it."""
    return OPERATION_UID in unit.metadata.annotations and source_of(unit) is None
