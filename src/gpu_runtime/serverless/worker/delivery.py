"""One delivered invocation, and the answers that the broker gets for it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import structlog
from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import NoAnswer, NotConfigured
from gpu_runtime.serverless.subjects import Priority, Run, parse_accepted

ANSWER_SECONDS = 2.0
TRIES = 5
_pauses = Exponential(0.1, 5.0)
_log = structlog.get_logger("worker")


async def refuse(message: Msg) -> None:
    """Ends the deliveries of a message that can have no end. The result store keeps it as a dead letter."""
    _log.error("a message that no process of ours publishes", subject=message.subject)
    with suppress(Error, OSError):
        await message.term()


class Delivery:
    """A message of the queue. A second delivery of the same run replaces the first: see `redelivered`."""

    def __init__(self, broker: Broker, message: Msg) -> None:
        self._broker, self._message = broker, message
        self.run: Run
        self.priority: Priority
        self.run, self.priority = parse_accepted(message.subject)
        _ = self.run.scope  # ValueError for an id or a run that no subject of an end can have

    @property
    def data(self) -> bytes:
        return self._message.data

    @property
    def attempt(self) -> int:
        """How many times the broker has delivered the run."""
        return self._message.metadata.num_delivered

    def redelivered(self, message: Msg) -> None:
        """The broker gave the run to this worker again, because it heard nothing of it for too long."""
        self._message = message

    async def in_progress(self) -> None:
        """Extends the ack wait. If one message is lost, the next one does it."""
        with suppress(Error, OSError):
            await self._message.in_progress()

    async def acknowledge(self) -> None:
        """Ends the deliveries. If the broker does not confirm it, the run comes again, and its end is found then."""
        await self._answer(b"+ACK")

    async def hand_back(self, delay: float = 0) -> None:
        """Asks for another delivery after the delay, to any worker."""
        await self._answer(b"-NAK" + (b" " + json.dumps({"delay": int(delay * 1e9)}).encode() if delay > 0 else b""))

    async def _answer(self, word: bytes) -> None:
        failures = 0
        while failures < TRIES:
            try:
                await self._broker.request(self._message.reply, word, seconds=ANSWER_SECONDS)
                return
            except NotConfigured:  # the consumer was deleted together with its function
                return
            except NoAnswer as error:
                if not self._broker.problem:  # an outage of the broker does not count
                    failures += 1
                _log.warning(
                    "the broker did not confirm", run=str(self.run), word=word[:4].decode(), problem=str(error)
                )
                await asyncio.sleep(_pauses.after(failures))
