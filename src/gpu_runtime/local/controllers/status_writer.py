"""Writes a status when it differs from what the cache shows, and only onto the version that was read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Object, wire
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.wire import Condition


async def write_status(client: Client, resource: Resource[Any], obj: Object, before: Any, after: Any) -> bool:
    """Patches the status subresource; True when there was something to write."""
    patch = status_patch(before, after)
    if not patch:
        return False
    document = {"metadata": identity(obj.metadata), "status": patch}
    try:
        await client.patch(resource, obj.metadata.key, document, subresource="status")
    except NotFound:
        return False  # the object was deleted meanwhile
    return True


def status_patch(before: Any, after: Any) -> dict[str, Any]:
    """The merge patch between two statuses of one type: what fell back to its default is removed."""
    return _merge_patch(wire(before), wire(after))


def _merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if name in before and old == value:
            continue
        patch[name] = _merge_patch(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch


def moved_condition(old: Condition | None, new: Condition, now: datetime) -> Condition:
    """`new` with its times: a transition is a change of status, an update is a change of status or reason."""
    now = now.replace(microsecond=0)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return old
    since = old.lastTransitionTime if old is not None and old.status == new.status else now
    return replace(new, lastUpdateTime=now, lastTransitionTime=since)
