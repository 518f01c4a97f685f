"""Events go after an hour."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gpu_runtime.local.apiserver.admission import Chain
from gpu_runtime.local.apiserver.builtin import add_builtin_kinds
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.expiry import expire_events
from gpu_runtime.local.apiserver.journal import Journal
from gpu_runtime.local.apiserver.kinds import Registry
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.node.agent.logs import PodLogs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_an_event_goes_an_hour_after_it_was_last_seen(tmp_path: Path) -> None:
    store = Store(Journal(tmp_path))
    registry = Registry()
    add_builtin_kinds(registry)
    environment = Environment(now=lambda: NOW)
    cluster = Cluster.assemble(store, registry, Chain([]), environment, PodLogs(tmp_path))
    old = "2026-01-01T10:00:00Z"
    times = {
        "old": {},
        "seen again": {"lastTimestamp": "2026-01-01T11:30:00Z"},
        "a year that never comes": {"lastTimestamp": "9999-12-31T23:59:59Z"},
        "a year before all others": {"lastTimestamp": "0000-01-01T00:00:00Z"},
        "no zone": {"lastTimestamp": "2026-01-01T11:30:00"},
    }
    for name, more in times.items():
        meta = {"name": name, "uid": name, "creationTimestamp": old}
        await store.write("events", f"ns/{name}", {"metadata": meta, **more}).committed
    expire_events(cluster)
    await store.settled()
    assert [record.key for record in store.records("events")] == ["ns/seen again"]
    store.close()
