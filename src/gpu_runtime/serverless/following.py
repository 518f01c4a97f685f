"""Follows a stream from its first message, without the bodies: every message once, in order.

The broker pushes messages to an ephemeral consumer. When one is missing, when the broker falls silent, or after it was
restarted, another consumer continues after the last message that was seen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError, NoAnswer, NotConfigured

HEARTBEAT_SECONDS = 1.0
SILENCE_SECONDS = 4.0
LOOK_SECONDS = 0.25
RETRY_SECONDS = 1.0
INACTIVE_SECONDS = 30.0
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Followed:
    """One stored message without its body."""

    subject: str
    sequence: int
    stored_at: float
    """Seconds since the epoch, by the broker's clock."""
    headers: Mapping[str, str]


def reconnects(broker: Broker) -> int:
    """How often the connection came back. Another number than before: messages may have been missed."""
    return broker.nats.stats["reconnects"]


class Interrupted(Exception):
    """Messages are missing. The next consumer continues where this one stopped."""


class Follower:
    """Calls `on_message` for each message, and `on_reset` when the stream was made anew and everything is forgotten."""

    def __init__(
        self,
        broker: Broker,
        stream: str,
        on_message: Callable[[Followed], None],
        on_reset: Callable[[], None] = lambda: None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker, self._stream = broker, stream
        self._on_message, self._on_reset, self._on_idle = on_message, on_reset, on_idle
        self._created = ""
        self.last = 0
        """The sequence in the stream of the last message that was seen."""
        self._delivered = 0  # sequence of the last message within the consumer
        self._heard = 0.0
        self._gap = False
        self.problem = "not followed yet"
        """Why messages may be missing; empty while everything that is stored has been seen."""
        self._log = structlog.get_logger("following").bind(stream=stream)

    @property
    def caught_up(self) -> bool:
        return not self.problem

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self._broker.connected()
            try:
                await self._follow()
            except (Interrupted, BrokerError) as interruption:
                self.problem = str(interruption)
                self._log.info("following again", problem=self.problem)
                if isinstance(interruption, BrokerError):
                    await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        connection = reconnects(self._broker)
        await self._check_identity()
        self._delivered, self._gap, self._heard = 0, False, time.monotonic()
        async with self._consumer() as pending:
            if not pending:
                self.problem = ""
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if self._gap:
                    raise Interrupted(f"messages of stream {self._stream} are missing")
                if self._broker.problem or reconnects(self._broker) != connection:
                    raise Interrupted(f"the connection to the broker was lost: {self._broker.problem or 'it is back'}")
                if time.monotonic() - self._heard > SILENCE_SECONDS:
                    raise Interrupted(f"stream {self._stream} is silent")

    async def _check_identity(self) -> None:
        """Begins anew when the stream is another one than before: its sequences mean something else."""
        info = await self._ask(f"$JS.API.STREAM.INFO.{self._stream}", {})
        created = info["created"]
        if self._created and (created != self._created or info["state"]["last_seq"] < self.last):
            self._log.warning("the stream was made anew; reading it from its beginning")
            self.last = 0
            self._on_reset()
        self._created = created

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[int]:
        """A consumer that continues after the last message. Gives how many messages are waiting."""
        nats = self._broker.nats
        inbox = nats.new_inbox()
        config = {
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.last + 1,
            "ack_policy": "none",
            "max_deliver": 1,
            "headers_only": True,
            "flow_control": True,
            "idle_heartbeat": int(HEARTBEAT_SECONDS * NANOSECONDS),
            "inactive_threshold": int(INACTIVE_SECONDS * NANOSECONDS),
            "mem_storage": True,
            "num_replicas": 1,
        }
        try:
            subscription = await nats.subscribe(inbox, cb=self._received)
        except (Error, OSError) as error:
            raise NoAnswer(f"cannot subscribe at the broker: {type(error).__name__}") from error
        try:
            # A consumer without a name: the permissions of a process that only reads allow no other.
            request = {"stream_name": self._stream, "config": config}
            info = await self._ask(f"$JS.API.CONSUMER.CREATE.{self._stream}", request)
            yield info["num_pending"]
        finally:
            # The broker deletes a consumer that nobody listens to.
            with suppress(Error, OSError):
                await subscription.unsubscribe()

    async def _ask(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await self._broker.request(subject, json.dumps(body).encode())).data)
        if (problem := answer.get("error")) is not None:
            raise NotConfigured(f"stream {self._stream}: {problem.get('description')}")
        return answer

    async def _received(self, message: Msg) -> None:
        if self._gap:
            return  # what comes after a gap comes again from the next consumer
        self._heard = time.monotonic()
        headers = message.headers or {}
        if "Status" in headers:
            await self._control(message, headers)
            return
        sequence, delivered, stored, pending = _place(message.reply)
        if delivered != self._delivered + 1:
            self._gap = True
            return
        self._delivered, self.last = delivered, sequence
        self._on_message(Followed(message.subject, sequence, stored / NANOSECONDS, headers))
        if not pending:
            self.problem = ""

    async def _control(self, message: Msg, headers: Mapping[str, str]) -> None:
        """A heartbeat of an idle consumer, or the question whether we keep up."""
        if answer := message.reply or headers.get("Nats-Consumer-Stalled"):
            with suppress(Error, OSError):
                await self._broker.nats.publish(answer)
        if headers.get("Nats-Last-Consumer", str(self._delivered)) != str(self._delivered):
            self._gap = True
        elif self.caught_up:
            self._on_idle()


def _place(reply: str) -> tuple[int, int, int, int]:
    """Sequence in the stream, sequence within the consumer, time of storing, and how many messages come after it.

    From the address for acknowledgements: `$JS.ACK.STREAM.CONSUMER.` and numbers, or with domain and account before.
    """
    tokens = reply.split(".")
    _, sequence, delivered, stored, pending = tokens[4:9] if len(tokens) == 9 else tokens[6:11]
    return int(sequence), int(delivered), int(stored), int(pending)
