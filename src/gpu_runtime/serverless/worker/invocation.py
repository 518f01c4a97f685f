"""One invocation that the worker holds, from its delivery to the acknowledgement.

The steps, in this order: look for its end, count its deliveries, check its deadline, run it, publish its end,
acknowledge. A crash between any two of them loses nothing: the broker delivers the invocation again.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import structlog

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.kube.clock import Clock
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.messages import InvocationMessage, ResultMessage
from gpu_runtime.serverless.worker.contract import NO_ANSWER, Answer, Failure, FrameworkRequest
from gpu_runtime.serverless.worker.decisions import (
    Ending,
    TryAgain,
    after_a_try,
    before_a_try,
    expired,
    try_seconds,
)
from gpu_runtime.serverless.worker.delivery import Delivery
from gpu_runtime.serverless.worker.ending import Ends
from gpu_runtime.serverless.worker.framework import Framework, NotReached
from gpu_runtime.serverless.worker.output import Outputs, RunOutput
from gpu_runtime.serverless.worker.readiness import Readiness
from gpu_runtime.serverless.worker.slots import Slots

_pauses = Exponential(0.1, 5.0)
_log = structlog.get_logger("worker")


@dataclass(frozen=True)
class Tools:
    """What every invocation of a worker uses."""

    worker: str
    broker: Broker
    framework: Framework
    readiness: Readiness
    slots: Slots
    ends: Ends
    outputs: Outputs
    clock: Clock
    in_progress_seconds: float
    look_seconds: float
    """How often a run looks whether it has ended elsewhere."""
    count: Callable[[str], None]
    """Counts ends by state for the metrics; also `retried` and `discarded`."""


@dataclass(eq=False)
class Invocation:
    delivery: Delivery
    tools: Tools
    decided: Callable[[Invocation], None]
    """Called when the answer to the broker is known, before it is sent."""
    started: datetime | None = None
    _look: asyncio.Event = field(default_factory=asyncio.Event)
    _interruptible: asyncio.Timeout | None = None
    _has_ended: bool = False
    """An end was found while the worker had the run: cancelled by its user, or done by another worker."""

    @property
    def key(self) -> str:
        return self.delivery.run.key

    def look_for_end(self) -> None:
        """Somebody says that the run has ended: looks at the broker whether that is true."""
        self._look.set()

    def hand_back(self) -> None:
        """Stops the run, because the process ends. Another worker gets it."""
        self._interrupt()

    async def process(self) -> None:
        """Returns when the delivery is acknowledged or handed back."""
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(each) for each in (self._attend(), self._watch())]
            try:
                answer = await self._interruptible_work()
                self.decided(self)
                # The broker is told in one place, after the end was published.
                if answer is None:
                    await self.delivery.acknowledge()
                else:
                    await self.delivery.hand_back(answer.delay)
            finally:
                for task in beside:
                    task.cancel()

    async def _interruptible_work(self) -> TryAgain | None:
        try:
            async with asyncio.timeout(None) as scope:
                self._interruptible = scope
                async with self.tools.slots.one(self.delivery.priority):
                    return await self._work()
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._interruptible = None
        if self._has_ended:
            self.tools.count("discarded")
            return None
        _log.info("handing back", run=str(self.delivery.run))
        return TryAgain(0, "the worker ends")

    async def _work(self) -> TryAgain | None:
        """None when the run has an end; otherwise it must be delivered again."""
        if await self.tools.ends.exists(self.delivery.run):
            return None
        message = self._message()
        if isinstance(message, Ending):
            await self._end(message, None)
            return None
        next_step = before_a_try(message, self.delivery.attempt, self.tools.clock.now()) or await self._try(message)
        if isinstance(next_step, TryAgain):
            _log.info("a try failed", run=str(self.delivery.run), attempt=self.delivery.attempt, error=next_step.error)
            self.tools.count("retried")
            return next_step
        await self._end(next_step, message)
        return None

    async def _try(self, message: InvocationMessage) -> Ending | TryAgain:
        """Runs the invocation as soon as the framework is ready."""
        try:
            payload = await self._payload(message)
        except bodies.BodyGone as error:
            return Ending("failed", "malformed_message", f"the payload cannot be read: {error}")
        while True:
            now = self.tools.clock.now()
            with suppress(TimeoutError):
                async with asyncio.timeout((message.deadline - now).total_seconds()):
                    await self.tools.readiness.ready()
            now = self.tools.clock.now()
            if now >= message.deadline:
                return expired(self.delivery.attempt - 1, self.tools.readiness.problem)
            try:
                outcome = await self._invoke(message, payload, try_seconds(message, now))
            except NotReached as error:  # nothing was run, so it is no failed try
                self.tools.readiness.doubt(str(error))
                continue
            if isinstance(outcome, Failure) and outcome.answer is NO_ANSWER:
                self.tools.readiness.doubt()
            return after_a_try(message, self.delivery.attempt, outcome, self.tools.clock.now())

    async def _invoke(self, message: InvocationMessage, payload: bytes, seconds: float) -> Answer | Failure:
        attempt = self.delivery.attempt
        is_json = len(message.payload.json) > 0 or _is_json(message)
        request = FrameworkRequest(
            invocationID=message.invocationID,
            serverlessRequestID=message.serverlessRequestID,
            workerName=self.tools.worker,
            workerNamespace=message.namespace,
            mode=message.mode,
            contentType=message.contentType,
            headers=message.headers,
            attributes=message.attributes,
            timeoutSeconds=round(seconds, 3),
            attempt=attempt,
            **(
                {"payload": msgspec.Raw(payload or b"null")}
                if is_json
                else {"payloadBase64": base64.b64encode(payload).decode()}
            ),
        )
        output = RunOutput(self.tools.outputs, self.delivery.run, self.tools.worker, attempt)
        self.started = self.tools.clock.now()
        output.begin()
        return await self.tools.framework.invoke(msgspec.json.encode(request), seconds, output.emit)

    async def _end(self, ending: Ending, message: InvocationMessage | None) -> None:
        """Publishes the end; another one that was first stands."""
        run, answer = self.delivery.run, ending.answer
        result = ResultMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            mode=message.mode if message is not None else "async",
            state=ending.state,
            failureClass=ending.failure,
            error=ending.error,
            workerName=self.tools.worker,
            workerNamespace=run.function.namespace,
            statusCode=answer.status or None,
            contentType=answer.content_type,
            headers=answer.headers,
            attempts=ending.attempts,
            acceptedAt=message.acceptedAt if message is not None else None,
            startedAt=self.started,
            completedAt=self.tools.clock.now(),
        )
        was_first = await self.tools.ends.publish(result, answer)
        self.tools.count(ending.state if was_first else "discarded")

    def _message(self) -> InvocationMessage | Ending:
        """The invocation, or its end when it cannot be read."""
        try:
            message = msgspec.json.decode(self.delivery.data, type=InvocationMessage)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return Ending("dead_lettered", "malformed_message", f"the message cannot be read: {error}")
        if message.of != self.delivery.run:
            return Ending("dead_lettered", "malformed_message", f"the message is of {message.of}, not of its subject")
        return message

    async def _payload(self, message: InvocationMessage) -> bytes:
        failures = 0
        while True:
            try:
                return await bodies.load(self.tools.broker, self.delivery.run, message.payload)
            except BrokerError as error:
                _log.warning("the payload cannot be read yet", run=str(self.delivery.run), problem=str(error))
                await asyncio.sleep(_pauses.after(failures))
                failures += 1

    async def _attend(self) -> None:
        """Keeps the broker from giving the run to another worker."""
        while True:
            await asyncio.sleep(self.tools.in_progress_seconds)
            await self.delivery.in_progress()

    async def _watch(self) -> None:
        """Notices that the run has ended meanwhile: at once when told, and from time to time if that was lost."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.tools.look_seconds):
                    await self._look.wait()
            self._look.clear()
            if await self.tools.ends.exists_now(self.delivery.run):
                self._has_ended = True
                self._interrupt()

    def _interrupt(self) -> None:
        if self._interruptible is not None:
            self._interruptible.reschedule(0)


def _is_json(message: InvocationMessage) -> bool:
    """Whether a payload that is stored apart is JSON. One without any bytes is `null`."""
    kind = message.contentType.partition(";")[0].strip().lower()
    return kind == "application/json" and not message.payload.base64
