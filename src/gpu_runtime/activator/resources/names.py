"""Names of what a function owns."""

from __future__ import annotations

import re
from hashlib import sha256

from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction

HASH_LENGTH = 12
OPERATION_PREFIX = "function-"
"""Begins the operationIDs of all hand-overs to functions."""


def worker(function: str, slot: int) -> str:
    """The unit in this slot. Creating it claims the slot: no two workers have the same."""
    return f"fn-{function}-{slot}"


def slot_of(function: str, unit: str) -> int | None:
    """The slot of a worker; None if the unit has another name."""
    prefix, number = f"fn-{function}-", unit.removeprefix(f"fn-{function}-")
    is_slot = unit.startswith(prefix) and number.isdecimal() and str(int(number)) == number
    return int(number) if is_slot else None


def handler(function: GPUFunction) -> str:
    """The ConfigMap of the current source. Another source, or another function of this name, gives another name."""
    assert function.spec.handler is not None
    text = f"{function.metadata.uid}\n{function.spec.handler.source}"
    return f"fn-{function.metadata.name}-{sha256(text.encode()).hexdigest()[:HASH_LENGTH]}"


def operation(function_uid: str, slot: int, random: str) -> str:
    """The operationID of a hand-over. It says for which function the unit was made, before an owner reference does."""
    return f"{operations_of(function_uid)}{slot}-{random}"


def is_operation(operation_id: str, slot: int) -> bool:
    """Whether the operationID is of a hand-over to this slot of some function. Users may choose similar ones."""
    uid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return re.fullmatch(rf"{OPERATION_PREFIX}{uid}-{slot}-[0-9a-f]+", operation_id) is not None


def operations_of(function_uid: str) -> str:
    """The beginning of the operationIDs of one function."""
    return f"{OPERATION_PREFIX}{function_uid}-"
