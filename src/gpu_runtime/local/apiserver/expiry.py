"""Deletes Events after an hour, as on a real cluster: nothing else deletes them."""

from __future__ import annotations

from datetime import datetime, timedelta

from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.options import DeleteOptions
from gpu_runtime.local.apiserver.records import Object

KEPT = timedelta(hours=1)


def last_seen(event: Object, now: datetime) -> datetime | None:
    """When an Event was last written, by its own times. Clients set most of them, so future times are ignored."""
    times = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        (event.get("series") or {}).get("lastObservedTime"),
    )
    return max((moment for text in times if (moment := _moment(text)) and moment <= now), default=None)


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:  # the API allows years that Python does not know
        return None
    return found if found.tzinfo else None


def expire_events(cluster: Cluster) -> None:
    kind = cluster.registry.find("", "v1", "events")
    assert kind is not None
    now = cluster.environment.now()
    for record in cluster.store.records(kind.resource):
        seen = last_seen(record.object(), now)
        if seen and seen < now - KEPT:
            namespace, _, name = record.key.rpartition("/")
            try:
                cluster.deleter.delete(kind, namespace, name, DeleteOptions())
            except Status:
                continue
