"""Copies the broker's messages into the database: fetch a batch, commit it, acknowledge it.

A batch that cannot be committed is tried again until it can; its messages are not acknowledged before, so a killed
process loses nothing, and a batch that is stored twice changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from gpu_runtime.kube.backoff import Exponential, JitteredBackoff
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.bodies import BodyGone
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.results.base import Batch, ResultStore, StoreRefused, StoreUnavailable
from gpu_runtime.serverless.results.deliveries import Delivery, malformed, read_end, read_invocation, together
from gpu_runtime.serverless.results.metrics import Metrics
from gpu_runtime.serverless.results.pulling import PullConsumer, delivery, pulling
from gpu_runtime.serverless.results.records import End

RETRY = Exponential(0.1, 1.0)  # not longer: at the first start the runtime-api makes the streams in a moment
LOOK_SECONDS = 5.0


class Consumer:
    """Copies one stream. Any number of replicas may share its durable consumer."""

    def __init__(
        self,
        store: ResultStore,
        broker: Broker,
        metrics: Metrics,
        *,
        stream: str,
        name: str,
        read: Callable[[Delivery], Batch],
        ack_wait_seconds: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store, self._broker, self._metrics, self._clock = store, broker, metrics, clock
        self._stream, self.name, self._read, self._ack_wait_seconds = stream, name, read, ack_wait_seconds
        self.broker_problem: str | None = "not consuming yet"
        self.database_problem: str | None = None
        self._log = structlog.get_logger("result-store").bind(consumer=name)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        backoff = JitteredBackoff(RETRY)
        while True:
            try:
                async with (
                    pulling(self._broker, self._stream, self.name, self._ack_wait_seconds) as consumer,
                    asyncio.TaskGroup() as tasks,
                ):
                    self.broker_problem = None
                    backoff.reset()
                    tasks.create_task(self._copy(consumer))
                    tasks.create_task(self._measure(consumer))
            except* BrokerError as errors:
                self.broker_problem = str(errors.exceptions[0])
                self._log.warning("cannot consume", problem=self.broker_problem)
            await asyncio.sleep(backoff.next())

    async def _copy(self, consumer: PullConsumer) -> None:
        while True:
            messages = await consumer.batch()
            deliveries = [delivery(message) for message in messages]
            try:
                await self._save_until_stored(deliveries)
            except BaseException:
                await consumer.hand_back(messages)
                raise
            await consumer.acknowledge(messages)
            self._count(deliveries)

    async def _save_until_stored(self, deliveries: Sequence[Delivery]) -> None:
        backoff = JitteredBackoff(RETRY)
        while True:
            try:
                await self._save(deliveries)
            except StoreUnavailable as error:
                self.database_problem = str(error)
                self._metrics.failures.labels(self.name).inc()
                self._log.warning("the database does not answer; trying again", problem=str(error))
                await asyncio.sleep(backoff.next())
            else:
                self.database_problem = None
                return

    async def _save(self, deliveries: Sequence[Delivery]) -> None:
        batch = together([self._read(each) for each in deliveries])
        for end in batch.ends:
            await self._copy_body(end)
        try:
            await self._store.save(batch)
        except StoreRefused as error:
            if len(deliveries) > 1:
                for each in deliveries:  # the others must not wait for one that the database never takes
                    await self._save([each])
                return
            letter = malformed(deliveries[0], f"the database does not take it: {error}")
            self._log.error("the database does not take a message", subject=letter.subject, problem=str(error))
            batch = Batch(dead_letters=[letter])
            await self._store.save(batch)
        for letter in batch.dead_letters:
            self._metrics.dead_letters.labels(letter.source).inc()

    async def _copy_body(self, end: End) -> None:
        """The database keeps a large body as long as the result; the broker drops it after a while."""
        message = end.message
        if message.body.ref is None or await self._store.body(message.of, "result") is not None:
            return
        try:
            content = await bodies.load(self._broker, message.of, message.body)
        except BodyGone as error:
            self._metrics.bodies_lost.inc()
            self._log.error("a large result is lost", run=str(message.of), problem=str(error))
            return
        await self._store.save_body(message.of, "result", content)

    async def _measure(self, consumer: PullConsumer) -> None:
        while True:
            with suppress(BrokerError):  # copying notices it, too, and says so
                self._metrics.pending.labels(self.name).set(await consumer.pending())
            await asyncio.sleep(LOOK_SECONDS)

    def _count(self, deliveries: Sequence[Delivery]) -> None:
        now = self._clock.now()
        self._metrics.stored.labels(self.name).inc(len(deliveries))
        for each in deliveries:
            self._metrics.delay.labels(self.name).observe(max(0.0, (now - each.stored_at).total_seconds()))


def consumers(store: ResultStore, broker: Broker, metrics: Metrics, ack_wait_seconds: int) -> list[Consumer]:
    return [
        Consumer(store, broker, metrics, stream=stream, name=name, read=read, ack_wait_seconds=ack_wait_seconds)
        for stream, name, read in (
            (INVOCATIONS, "result-store-inv", read_invocation),
            (RESULTS, "result-store-res", read_end),
        )
    ]
