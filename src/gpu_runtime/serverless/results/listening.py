"""Stores the broker's advisories about messages that it gave up on.

The broker sends an advisory once: while no replica listens, it is lost. No consumer of ours has a limit of deliveries,
so an advisory is about a consumer that somebody else made.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import structlog
from nats.aio.msg import Msg
from nats.errors import Error
from nats.js.errors import NotFoundError

from gpu_runtime.kube.backoff import Exponential, JitteredBackoff
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.results import advisories
from gpu_runtime.serverless.results.advisories import MaxDeliveries
from gpu_runtime.serverless.results.base import Batch, ResultStore, StoreRefused, StoreUnavailable
from gpu_runtime.serverless.results.deliveries import Delivery
from gpu_runtime.serverless.results.metrics import Metrics

WAITING = 1000
"""Advisories that wait for the database. What comes when so many wait is reported and dropped."""
RETRY = Exponential(0.1, 1.0)


class AdvisoryListener:
    def __init__(self, store: ResultStore, broker: Broker, metrics: Metrics) -> None:
        self._store, self._broker, self._metrics = store, broker, metrics
        self._waiting: asyncio.Queue[MaxDeliveries] = asyncio.Queue(WAITING)
        self._log = structlog.get_logger("advisories")

    async def run(self) -> None:
        """Runs until it is cancelled."""
        await self._broker.connected()
        # Subscriptions survive a reconnect. Of all replicas one gets each advisory.
        subscription = await self._broker.nats.subscribe(advisories.SUBJECT, queue="result-store", cb=self._received)
        try:
            while True:
                await self._save(await self._waiting.get())
        finally:
            with suppress(Error, OSError):
                await subscription.unsubscribe()

    async def _received(self, message: Msg) -> None:
        try:
            advisory = advisories.read(message.data)
        except msgspec.MsgspecError as error:
            self._log.warning("an advisory cannot be read", subject=message.subject, problem=str(error))
            return
        try:
            self._waiting.put_nowait(advisory)
        except asyncio.QueueFull:
            self._log.error("dropped an advisory: the database does not keep up", advisory=repr(advisory))

    async def _save(self, advisory: MaxDeliveries) -> None:
        backoff = JitteredBackoff(RETRY)
        while True:
            try:
                letter = advisories.dead_letter(advisory, await self._message(advisory))
                await self._store.save(Batch(dead_letters=[letter]))
            except StoreRefused as error:
                self._log.error("dropped an advisory: the database does not take it", problem=str(error))
                return
            except (StoreUnavailable, Error, TimeoutError, OSError) as error:
                self._log.warning("cannot store an advisory; trying again", problem=str(error))
                await asyncio.sleep(backoff.next())
            else:
                self._metrics.dead_letters.labels(letter.source).inc()
                return

    async def _message(self, advisory: MaxDeliveries) -> Delivery | None:
        try:
            found = await self._broker.stream.get_msg(advisory.stream, advisory.stream_seq)
        except NotFoundError:
            return None
        return Delivery(
            found.subject or "",
            found.data or b"",
            advisory.timestamp,
            advisory.stream,
            advisory.stream_seq,
            found.headers or {},
        )
