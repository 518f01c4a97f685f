"""The merge patch between two versions of a spec."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gpu_runtime.api.meta.object import wire


def merge_patch(before: Struct, after: Struct) -> dict[str, Any]:
    """What turns `before` into `after`; empty when they are equal. Fields that `after` omits are removed."""
    old, new = wire(before), wire(after)
    return {
        name: _replacing(old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    }


def _replacing(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {name: None for name in old if name not in new} | {
        name: _replacing(old.get(name), value) for name, value in new.items()
    }
