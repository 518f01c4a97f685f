"""Ends a run, or begins the next one: cancel, retry and redrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import msgspec
from nats.errors import Error

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.rest.errors import InvocationState, Unavailable
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.bodies import BodyGone
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError, Full, NoAnswer
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.messages import STATE, Body, Cancelled, InvocationMessage, ResultMessage, encode
from gpu_runtime.serverless.results.base import ResultReader, StoreUnavailable
from gpu_runtime.serverless.subjects import Run
from gpu_runtime.service.invocations.acceptance import (
    CONFIRM_SECONDS,
    FULL_RETRY_SECONDS,
    PAUSE_SECONDS,
    Acceptance,
    Accepted,
    publish_invocation,
)
from gpu_runtime.service.invocations.lookup import FoundRun, Lookup, broker_away, store_away


class Changes:
    """What a client can do to an invocation that was accepted."""

    def __init__(
        self,
        broker: Broker,
        results: ResultReader | None,
        lookup: Lookup,
        acceptance: Acceptance,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._broker, self._results, self._lookup, self._acceptance = broker, results, lookup, acceptance
        self._clock = clock

    async def cancel(self, found: FoundRun) -> FoundRun:
        """The cancelled run; InvocationState if it ended in another way. Repeating it is harmless."""
        end = found.end or await self._end_as_cancelled(found)
        if end.state != "cancelled":
            raise InvocationState(f"invocation {found.run.invocation_id} has ended: it is {end.state}")
        # Tell the workers also in a repeated request: the first one may have died before it did.
        news = Cancelled(invocationID=found.run.invocation_id, run=found.run.number)
        with suppress(Error, OSError):  # a worker that does not hear it finds the end later
            await self._broker.nats.publish(subjects.cancelled(found.run.function), encode(news))
        return replace(found, end=end)

    async def retry(self, found: FoundRun, run: int | None = None, *, only_dead: bool = False) -> Accepted:
        """The next run of an invocation that ended without success. Repeating it is harmless.

        `run` says which run failed: without it, a repeated request may begin another run if the next one ended, too.
        """
        name, last = found.run.invocation_id, found.run.number
        if run is not None and run > last:
            raise InvocationState(f"invocation {name} has no run {run}: its last run is {last}")
        if (run is not None and run < last) or (found.end is None and last > 1):
            return Accepted(found, duplicate=True)  # another request was faster
        if found.end is None:
            raise InvocationState(f"invocation {name} has not ended: there is nothing to retry")
        if found.end.state == "succeeded" or (only_dead and found.end.state != "dead_lettered"):
            raise InvocationState(f"invocation {name} is {found.end.state}: there is nothing to retry")
        return await self._next_run(found)

    async def _next_run(self, found: FoundRun) -> Accepted:
        if found.message is None:
            raise InvocationState(f"invocation {found.run.invocation_id} cannot run again: its payload is not kept")
        policy = await self._acceptance.admit(found.run.function)
        run = found.run._replace(number=found.run.number + 1)
        now, before = self._clock.now(), found.message
        message = msgspec.structs.replace(
            before,
            run=run.number,
            payload=await self._copied_payload(before, run),
            runSeconds=policy.run_seconds if before.runSeconds is not None else None,
            acceptedAt=now,
            deadline=now + (before.deadline - before.acceptedAt),
            retry=policy.retry,
        )
        mine = uuid4().hex
        stored = await publish_invocation(
            self._broker, message, priority=found.priority, request_hash=found.request_hash, submission=mine
        )
        if stored:
            return Accepted(FoundRun(run, now, found.request_hash, found.priority, mine, message), duplicate=False)
        later = await self._lookup.require(run.function, run.invocation_id)
        return Accepted(later, duplicate=later.submission != mine)

    async def _copied_payload(self, message: InvocationMessage, run: Run) -> Body:
        """The payload for another run. Chunks of a large one are copied: they are stored by run."""
        if message.payload.ref is None:
            return message.payload
        is_json = message.contentType == "application/json"
        try:
            data = await bodies.load(self._broker, message.of, message.payload)
        except BodyGone:
            data = await self._stored_payload(message.of)
        except BrokerError as error:
            raise broker_away(error) from error
        try:
            return await bodies.store(self._broker, run, data, is_json=is_json)
        except BrokerError as error:
            raise broker_away(error) from error

    async def _stored_payload(self, run: Run) -> bytes:
        try:
            data = await self._results.body(run, "payload") if self._results is not None else None
        except StoreUnavailable as error:
            raise store_away(error) from error
        if data is None:
            raise InvocationState(f"invocation {run.invocation_id} cannot run again: its payload is not kept")
        return data

    async def _end_as_cancelled(self, found: FoundRun) -> ResultMessage:
        """The end of the run, which is this one unless another came first."""
        run = found.run
        mine = ResultMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            mode=found.message.mode if found.message is not None else "async",
            state="cancelled",
            failureClass="cancelled_by_user",
            error="cancelled by a request",
            acceptedAt=found.accepted_at,
            completedAt=self._clock.now(),
        )
        if await self._publish_end(run, mine):
            return mine
        end = await self._lookup.end(run)
        if end is None:
            raise Unavailable(f"the end of invocation {run.invocation_id} cannot be read: send the request again")
        return end

    async def _publish_end(self, run: Run, end: ResultMessage) -> bool:
        limit = asyncio.get_running_loop().time() + CONFIRM_SECONDS
        while True:
            try:
                stored = await publish_once(self._broker, subjects.ended(run), encode(end), headers={STATE: end.state})
            except NoAnswer as error:
                if self._broker.problem or asyncio.get_running_loop().time() > limit:
                    raise broker_away(error) from error
                await asyncio.sleep(PAUSE_SECONDS)
            except Full as error:
                raise Unavailable(f"the broker is full: {error}", retry_after=FULL_RETRY_SECONDS) from error
            except BrokerError as error:
                raise broker_away(error) from error
            else:
                return stored is not None
