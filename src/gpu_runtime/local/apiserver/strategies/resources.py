"""Requests and limits of containers."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, required, wrong
from gpu_runtime.local.apiserver.names import qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.quantities import nanos

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_NOT_NEGATIVE = "must be greater than or equal to 0"


def resource_causes(resources: Object, field: str) -> list[Cause]:
    """Requests and limits: known names, not negative, whole where they must be, requests not above limits."""
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            inside = f"{field}.{part}[{name}]"
            causes += resource_name_causes(name, inside) + quantity_causes(name, amount, inside)
    for name, amount in requests.items():
        limit = limits.get(name)
        extended = is_extended(name)
        if limit is not None:
            if extended and nanos(amount) != nanos(limit):
                causes.append(wrong(f"{field}.requests", amount, f"must be equal to {name} limit of {limit}"))
            elif nanos(amount) > nanos(limit):
                causes.append(
                    wrong(f"{field}.requests", amount, f"must be less than or equal to {name} limit of {limit}")
                )
        elif extended:
            causes.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
    return causes


def is_extended(name: str) -> bool:
    """A resource that may not be overcommitted: GPUs and their like."""
    return "/" in name


def resource_name_causes(name: str, field: str) -> list[Cause]:
    causes = [wrong(field, name, message) for message in qualified_name(name)]
    if causes:
        return causes
    if "/" not in name:
        if name not in _NATIVE and not name.startswith("hugepages-"):
            texts = (
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            )
            return [wrong(field, name, text) for text in texts]
    elif name.startswith("requests."):
        return [wrong(field, name, "must be a standard resource for containers")]
    return []


def quantity_causes(name: str, amount: Any, field: str) -> list[Cause]:
    if nanos(amount) < 0:
        return [wrong(field, amount, _NOT_NEGATIVE)]
    if is_extended(name) and nanos(amount) % 10**9:
        return [wrong(field, amount, "must be an integer")]
    return []
