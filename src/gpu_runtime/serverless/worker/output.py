"""Partial output of runs, for whoever listens at the moment. It is bounded and never holds up a run."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from nats.errors import Error

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.bodies import INLINE_BYTES
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import Body, Output, encode
from gpu_runtime.serverless.subjects import Run

WAITING_BYTES = 4 * 1024**2
"""Output that waits for the broker. What comes when it is full is left out: listeners see a gap in the sequence."""


class Outputs:
    """Publishes in the background what runs put out."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._more = asyncio.Event()

    def put(self, subject: str, message: bytes) -> None:
        if self._bytes + len(message) > WAITING_BYTES:
            return
        self._waiting.append((subject, message))
        self._bytes += len(message)
        self._more.set()

    async def run(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                subject, message = self._waiting.popleft()
                self._bytes -= len(message)
                # Without a connection it would wait in the client's buffer, which acknowledgements need.
                if not self._broker.problem:
                    with suppress(Error, OSError):
                        await self._broker.nats.publish(subject, message)


class RunOutput:
    """The output of one try. The first event has no data: the try has begun."""

    def __init__(self, outputs: Outputs, run: Run, worker: str, attempt: int) -> None:
        self._outputs, self._subject = outputs, subjects.output(run)
        self._worker, self._attempt = worker, attempt
        self._sequence = 0

    def begin(self) -> None:
        self._put(Output(sequence=0, workerName=self._worker, attempt=self._attempt))

    def emit(self, data: bytes) -> None:
        """A piece of output, as JSON."""
        self._sequence += 1
        if len(data) <= INLINE_BYTES:
            body = Body.of(data, is_json=True)
            self._put(Output(sequence=self._sequence, workerName=self._worker, attempt=self._attempt, data=body))

    def _put(self, output: Output) -> None:
        self._outputs.put(self._subject, encode(output))
