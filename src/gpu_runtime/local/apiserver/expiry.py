"""Events are kept for an hour, as on a real cluster; nobody would delete them otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta

from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.options import DeleteOptions
from gpu_runtime.local.apiserver.records import Object

KEPT = timedelta(hours=1)


def last_seen(event: Object) -> str:
    """When an Event was last written, as far as it tells."""
    times = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        (event.get("series") or {}).get("lastObservedTime"),
    )
    return max(filter(None, times), default="")


def expire_events(cluster: Cluster) -> None:
    kind = cluster.registry.find("", "v1", "events")
    assert kind is not None
    now = cluster.environment.now()
    for record in cluster.store.records(kind.resource):
        seen = last_seen(record.object())
        if seen and datetime.fromisoformat(seen) + KEPT < now:
            namespace, _, name = record.key.rpartition("/")
            try:
                cluster.deleter.delete(kind, namespace, name, DeleteOptions())
            except Status:
                continue
