"""Batches of a durable pull consumer: whatever is there, as soon as something is there."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError, NoAnswer, NotConfigured
from gpu_runtime.serverless.following import reconnects
from gpu_runtime.serverless.results.deliveries import Delivery

BATCH_MESSAGES = 256
BATCH_BYTES = 16 * 1024**2
"""Messages may have 1 MiB: a batch must fit into memory."""
EXPIRES_SECONDS = 10.0
LATE_SECONDS = 2.0
LOOK_SECONDS = 0.5
"""How often an idle consumer looks whether its request is still good."""
ACKNOWLEDGE = "$JS.ACK."
"""Where the reply address of each stored message begins. Messages about a request have none."""
NANOSECONDS = 1_000_000_000


class PullConsumer:
    """Used inside `pulling`. A message that is not acknowledged comes again, to this process or another replica."""

    def __init__(self, broker: Broker, stream: str, name: str) -> None:
        self._broker, self._stream, self._name = broker, stream, name
        self._received: asyncio.Queue[Msg] = asyncio.Queue()
        self._inbox = ""
        self._wanted = 0
        self._until = 0.0
        self._connection = -1

    async def batch(self) -> list[Msg]:
        """At least one message. NotConfigured: the consumer is gone."""
        while True:
            if self._wanted <= 0 or time.monotonic() > self._until or reconnects(self._broker) != self._connection:
                await self._request()
            messages = await self._arrived()
            if messages:
                return messages

    async def acknowledge(self, messages: list[Msg]) -> None:
        """A lost acknowledgement costs another delivery, which changes nothing."""
        with suppress(Error, OSError):
            for message in messages:
                await self._broker.nats.publish(message.reply, b"+ACK")

    async def hand_back(self, messages: list[Msg]) -> None:
        """They come again at once, to any replica."""
        with suppress(Error, OSError):
            for message in messages:
                if message.reply.startswith(ACKNOWLEDGE):
                    await self._broker.nats.publish(message.reply, b"-NAK")

    async def pending(self) -> int:
        """Messages that are not stored and acknowledged."""
        info = await _ask(self._broker, f"$JS.API.CONSUMER.INFO.{self._stream}.{self._name}", {})
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _request(self) -> None:
        await self._broker.connected()
        request = {"batch": BATCH_MESSAGES, "max_bytes": BATCH_BYTES, "expires": int(EXPIRES_SECONDS * NANOSECONDS)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        self._connection = reconnects(self._broker)
        try:
            await self._broker.nats.publish(subject, json.dumps(request).encode(), reply=self._inbox)
        except (Error, OSError) as error:
            raise NoAnswer(f"the broker does not take a request: {type(error).__name__}") from error
        # A request that the broker lost is made again after this time.
        self._wanted, self._until = BATCH_MESSAGES, time.monotonic() + EXPIRES_SECONDS + LATE_SECONDS

    async def _arrived(self) -> list[Msg]:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                messages = [await self._received.get()]
        except TimeoutError:
            return []
        while not self._received.empty() and len(messages) < BATCH_MESSAGES:
            messages.append(self._received.get_nowait())
        return [message for message in messages if not self._is_status(message)]

    def _is_status(self, message: Msg) -> bool:
        """Status messages end a request: it expired, was fulfilled by size, or the consumer is gone."""
        if message.reply.startswith(ACKNOWLEDGE):
            self._wanted -= 1
            return False
        headers = message.headers or {}
        if headers.get("Status") != "100":
            self._wanted = 0
        if headers.get("Status") == "503":
            raise NotConfigured(f"consumer {self._name} of stream {self._stream} does not exist")
        return True

    @asynccontextmanager
    async def _subscribed(self) -> AsyncIterator[None]:
        nats = self._broker.nats
        self._inbox = nats.new_inbox()
        try:
            subscription = await nats.subscribe(self._inbox, cb=self._received.put)
        except (Error, OSError) as error:
            raise NoAnswer(f"cannot subscribe at the broker: {type(error).__name__}") from error
        try:
            yield
        finally:
            with suppress(Error, OSError):
                await subscription.unsubscribe()
            await self.hand_back([self._received.get_nowait() for _ in range(self._received.qsize())])


@asynccontextmanager
async def pulling(broker: Broker, stream: str, name: str, ack_wait_seconds: int) -> AsyncIterator[PullConsumer]:
    """The consumer, created if it does not exist. NotConfigured: the stream does not exist yet."""
    await broker.connected()
    config = {
        "name": name,
        "durable_name": name,
        "ack_policy": "explicit",
        "ack_wait": ack_wait_seconds * NANOSECONDS,
        "deliver_policy": "all",
        "max_deliver": -1,
        "max_ack_pending": 4 * BATCH_MESSAGES,
    }
    await _ask(broker, f"$JS.API.CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
    consumer = PullConsumer(broker, stream, name)
    async with consumer._subscribed():  # noqa: SLF001
        yield consumer


def delivery(message: Msg) -> Delivery:
    """The broker puts where and when a message is stored into the address for acknowledgements."""
    tokens = message.reply.split(".")
    # `$JS.ACK.STREAM.CONSUMER.` and numbers, or with domain and account before the stream.
    stream, consumer, deliveries, sequence, _, stored = (tokens[2:] if len(tokens) == 9 else tokens[4:])[:6]
    return Delivery(
        subject=message.subject,
        data=message.data,
        stored_at=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(stored) // 1000),
        stream=stream,
        sequence=int(sequence),
        headers=message.headers or {},
        consumer=consumer,
        deliveries=int(deliveries),
    )


async def _ask(broker: Broker, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await broker.request(subject, json.dumps(body).encode())).data)
    if (problem := answer.get("error")) is not None:
        message = f"the broker answered: {problem.get('description')}"
        raise NotConfigured(message) if problem.get("code") == 404 else BrokerError(message)
    return answer
