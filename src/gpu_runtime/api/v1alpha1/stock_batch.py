"""A batch of stock: its units are numbered from 1, and its Operation lists the UID of each number."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import BATCH, OPERATION_UID, STOCK_ORDINAL
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation


def place(record: Operation) -> Key:
    """The namespace of the batch, and the name prefix of its units."""
    namespace, _, prefix = record.metadata.annotations.get(BATCH, "").partition("/")
    return Key(namespace, prefix)


def unit_name(prefix: str, ordinal: int) -> str:
    return f"{prefix}-{ordinal:03d}"


def ordinal_of(meta: ObjectMeta) -> int:
    """The number of a seeded unit in its batch; 0 for anything else."""
    text = meta.annotations.get(STOCK_ORDINAL, "")
    return int(text) if text.isdecimal() and OPERATION_UID in meta.annotations else 0


def listed_uid(record: Operation, ordinal: int) -> str:
    """The UID that the record lists for this number; empty when it lists none."""
    return record.status.units[ordinal - 1] if 0 < ordinal <= len(record.status.units) else ""


def with_units(record: Operation, made: Mapping[int, str]) -> list[str]:
    """The record's list, with the UIDs of `made` put into empty places. An entry is never replaced."""
    units = [*record.status.units]
    units += [""] * (max(made, default=0) - len(units))
    for ordinal, uid in made.items():
        units[ordinal - 1] = units[ordinal - 1] or uid
    return units


def seen_listed(unit: GPUUnit) -> bool:
    """Whether the controller has ever seen the unit's UID in its record's list. Only such a unit becomes Ready.

    `phase` counts too, because stock that an earlier version called Ready has no `listed`.
    """
    return unit.status.listed or unit.status.phase == "Ready"
