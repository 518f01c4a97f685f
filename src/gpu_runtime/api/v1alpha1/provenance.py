"""Which stock a unit consumed. The annotations are written after the operation commits, and make the unit live."""

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


@dataclass(frozen=True)
class Source:
    """The stock unit that an active unit consumed."""

    key: Key
    uid: str
    node: str = ""


def source_of(unit: GPUUnit) -> Source | None:
    """The stock that the unit consumed; None if it consumed none or is not admitted yet."""
    notes = unit.metadata.annotations
    if not (uid := notes.get(SOURCE_STOCK_UID, "")):
        return None
    key = Key(notes.get(SOURCE_STOCK_NAMESPACE, ""), notes.get(SOURCE_STOCK_NAME, ""))
    return Source(key, uid, notes.get(SOURCE_STOCK_NODE, ""))


def provenance(choice: StockChoice) -> dict[str, str]:
    """The annotations that admit a unit, which makes it live."""
    notes = {SOURCE_STOCK_NAME: choice.name, SOURCE_STOCK_NAMESPACE: choice.namespace, SOURCE_STOCK_UID: choice.uid}
    return notes | ({SOURCE_STOCK_NODE: choice.nodeName} if choice.nodeName else {})


def is_admitted(unit: GPUUnit) -> bool:
    return SOURCE_STOCK_UID in unit.metadata.annotations


def is_inert(unit: GPUUnit) -> bool:
    """Whether an operation made the unit and it is not admitted yet. Controllers create nothing for such a unit."""
    return OPERATION_UID in unit.metadata.annotations and source_of(unit) is None
