"""Removes what is not needed any more: from the broker what the database has, from the database what is too old.

Replicas may do the same work at the same time: each step can be repeated.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta

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

PURGE_BATCH = 100
DELETE_BATCH = 500
PAUSE_SECONDS = 1.0
"""After a failure; and between batches, so that housekeeping leaves the broker and the database to others."""


@dataclass(frozen=True)
class Limits:
    """How long and how much is kept."""

    broker_keep: timedelta
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
        due = await self._store.finished(self._clock.now() - self._limits.broker_keep, PURGE_BATCH)
        purged = []
        for finished in due:
            if await self._purge(finished):
                purged.append(finished.run)
            await asyncio.sleep(1 / self._limits.purges_per_second)
        if purged:
            await self._store.mark_purged(purged)
            self._metrics.purged.inc(len(purged))
        # Without progress the same runs would come again: they wait for the next sweep.
        return bool(purged) and len(due) == PURGE_BATCH

    async def _purge(self, finished: FinishedRun) -> bool:
        """False: the broker has something that the database lacks."""
        run = finished.run
        if not finished.acceptance_stored and await last(self._broker, INVOCATIONS, subjects.accepted_any(run)):
            return False
        if finished.payload_missing and finished.state != "succeeded":
            await self._copy_payload(run)
        # The invocation goes first: a worker that still held it without its end would run it again.
        await self._purge_subject(INVOCATIONS, subjects.accepted_any(run))
        await self._purge_subject(RESULTS, subjects.ended(run))
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
        request = json.dumps({"filter": subject}).encode()
        answer = json.loads((await self._broker.request(f"$JS.API.STREAM.PURGE.{stream}", request)).data)
        if (problem := answer.get("error")) is not None:
            raise BrokerError(f"stream {stream} cannot be purged: {problem.get('description')}")

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
