"""The metrics of the result store."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


class Metrics:
    """Counters of one process, in a registry of its own so that several can live in one test."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pending = Gauge(
            "result_store_pending_messages",
            "Messages of the broker that are not in the database yet.",
            ["consumer"],
            registry=self.registry,
        )
        self.stored = Counter(
            "result_store_messages", "Messages that are in the database.", ["consumer"], registry=self.registry
        )
        self.delay = Histogram(
            "result_store_delay_seconds",
            "From the broker's storing of a message to its commit in the database.",
            ["consumer"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.failures = Counter(
            "result_store_failures", "Writes that the database did not take.", ["consumer"], registry=self.registry
        )
        self.dead_letters = Counter(
            "result_store_dead_letters", "Dead letters by their source.", ["source"], registry=self.registry
        )
        self.bodies_lost = Counter(
            "result_store_bodies_lost",
            "Large bodies that the broker dropped before they were copied.",
            registry=self.registry,
        )
        self.purged = Counter(
            "result_store_purged_runs", "Finished runs purged from the broker.", registry=self.registry
        )
        self.stream_fill = Gauge(
            "result_store_stream_fill_ratio",
            "Bytes of a stream of the broker, as a share of its limit.",
            ["stream"],
            registry=self.registry,
        )
        self.deleted = Counter(
            "result_store_deleted_records",
            "Records deleted from the database by their reason, age or size.",
            ["reason"],
            registry=self.registry,
        )
        self.size = Gauge("result_store_bytes", "Bytes of all records in the database.", registry=self.registry)
