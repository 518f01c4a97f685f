"""The metrics of the controller runtime."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Counters of one process, in a registry of its own so that several can live in one test."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "controller_reconciles", "Reconciles by how they ended.", ["controller", "outcome"], registry=self.registry
        )
        self._seconds = Histogram(
            "controller_reconcile_seconds", "Time of one reconcile.", ["controller"], registry=self.registry
        )
        self._depth = Gauge(
            "controller_queue_depth", "Keys ready to be worked on.", ["controller"], registry=self.registry
        )
        self._leader = Gauge("leader", "1 while this process holds the lease.", registry=self.registry)
        self._cached = Gauge("cache_objects", "Objects in the cache.", ["kind"], registry=self.registry)
        self._unreadable = Gauge(
            "cache_unreadable_objects", "Objects that exist and cannot be read.", ["kind"], registry=self.registry
        )

    def reconciled(self, controller: str, outcome: str, seconds: float, depth: int) -> None:
        self._reconciles.labels(controller, outcome).inc()
        self._seconds.labels(controller).observe(seconds)
        self._depth.labels(controller).set(depth)

    def leading(self, leader: bool) -> None:
        self._leader.set(leader)

    def cached(self, kind: str, objects: int, unreadable: int) -> None:
        self._cached.labels(kind).set(objects)
        self._unreadable.labels(kind).set(unreadable)
