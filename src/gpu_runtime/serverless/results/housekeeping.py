"""Removes what is not needed any more: from the broker what the database has, from the database what is too old.

Replicas may do the same work at the same time: each step can be repeated.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.bodies import BodyGone
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.publishing import last
from gpu_runtime.serverless.broker.streams import BODIES, INVOCATIONS, RESULTS
from gpu_runtime.serverless.results.base import FinishedRun, ResultStore, StoreUnavailable
from gpu_runtime.serverless.results.metrics import Metrics
from gpu_runtime.serverless.subjects import Run

PURGE_BATCH = 200
PURGES_AT_ONCE = 20
DELETE_BATCH = 500
FULL = 0.5
"""The share of a stream's limit above which finished runs are purged early."""
FULL_KEEP = timedelta(minutes=5)
"""Longer than a request lasts, and than a worker takes from the delivery of a message to the look for its end. After a
purge the broker would accept the id, or an end, a second time."""


@dataclass(frozen=True)
class Limits:
    """How long and how much is kept."""

    broker_keep: timedelta
    """While a stream is more than half full: at most FULL_KEEP."""
    database_keep: timedelta
    database_bytes: int
    purges_per_second: int
    every: timedelta


class Housekeeping:
    def __init__(
        self, store: ResultStore, broker: Broker, limits: Limits, metrics: Metrics, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._store, self._broker, self._limits, self._metrics, self._clock = store, broker, limits, metrics, clock
        self._log = structlog.get_logger("housekeeping")

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            try:
                await self.sweep()
            except (BrokerError, StoreUnavailable) as error:
                self._log.warning("stopped early; the rest waits for the next time", problem=str(error))
            await asyncio.sleep(self._limits.every.total_seconds())

    async def sweep(self) -> None:
        """Removes everything that is due now."""
        while await self._purge_batch():
            pass
        while await self._delete_old():
            pass
        await self._delete_excess()

    async def _purge_batch(self) -> bool:
        """Whether there may be more."""
        due = await self._store.finished(self._clock.now() - await self._broker_keep(), PURGE_BATCH)
        purged = []
        for start in range(0, len(due), PURGES_AT_ONCE):
            runs = due[start : start + PURGES_AT_ONCE]
            gone = await asyncio.gather(*(self._purge(finished) for finished in runs))
            purged += [finished.run for finished, is_gone in zip(runs, gone, strict=True) if is_gone]
            await asyncio.sleep(len(runs) / self._limits.purges_per_second)
        if purged:
            await self._store.mark_purged(purged)
            self._metrics.purged.inc(len(purged))
        # Without progress the same runs would come again: they wait for the next sweep.
        return bool(purged) and len(due) == PURGE_BATCH

    async def _broker_keep(self) -> timedelta:
        """Less than usual while a stream fills up: a full one would refuse new invocations or ends."""
        fill = 0.0
        for name in (INVOCATIONS, RESULTS, BODIES):
            info = await self._ask(f"$JS.API.STREAM.INFO.{name}", {})
            most = info["config"]["max_bytes"]
            share = info["state"]["bytes"] / most if most > 0 else 0.0
            self._metrics.stream_fill.labels(name).set(share)
            fill = max(fill, share)
        return min(self._limits.broker_keep, FULL_KEEP) if fill > FULL else self._limits.broker_keep

    async def _purge(self, finished: FinishedRun) -> bool:
        """False: the broker has something that the database lacks."""
        run = finished.run
        if not finished.acceptance_stored and await last(self._broker, INVOCATIONS, subjects.accepted_any(run)):
            return False
        if finished.payload_missing and finished.state != "succeeded":
            await self._copy_payload(run)
        # The invocation goes first: if only its end were gone, a worker would run it again.
        await self._purge_subject(INVOCATIONS, subjects.accepted_any(run))
        await self._purge_subject(RESULTS, subjects.ended(run))
        if finished.large_bodies:  # chunks that nothing refers to go with the age limit of their stream
            await self._purge_subject(BODIES, f"body.{run.scope}.>")
        return True

    async def _copy_payload(self, run: Run) -> None:
        """A retry or redrive needs the payload of a run that did not succeed."""
        stored = await self._store.get(run)
        if stored is None or stored.acceptance is None or stored.acceptance.message is None:
            return
        try:
            content = await bodies.load(self._broker, run, stored.acceptance.message.payload)
        except BodyGone as error:
            self._metrics.bodies_lost.inc()
            self._log.error("a large payload is lost", run=str(run), problem=str(error))
            return
        await self._store.save_body(run, "payload", content)

    async def _purge_subject(self, stream: str, subject: str) -> None:
        await self._ask(f"$JS.API.STREAM.PURGE.{stream}", {"filter": subject})

    async def _ask(self, subject: str, body: dict[str, str]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await self._broker.request(subject, json.dumps(body).encode())).data)
        if (problem := answer.get("error")) is not None:
            raise BrokerError(f"the broker answered to {subject}: {problem.get('description')}")
        return answer

    async def _delete_old(self) -> bool:
        """Whether there may be more."""
        deleted = await self._store.delete_oldest(
            DELETE_BATCH, ended_before=self._clock.now() - self._limits.database_keep
        )
        self._metrics.deleted.labels("age").inc(deleted.runs + deleted.dead_letters)
        return bool(deleted)

    async def _delete_excess(self) -> None:
        size = await self._store.size()
        while size > self._limits.database_bytes:
            deleted = await self._store.delete_oldest(DELETE_BATCH, size=size - self._limits.database_bytes)
            if not deleted:
                self._log.warning("the database is too large, and nothing in it may be deleted yet", bytes=size)
                break
            self._metrics.deleted.labels("size").inc(deleted.runs + deleted.dead_letters)
            size -= deleted.size
        self._metrics.size.set(size)
