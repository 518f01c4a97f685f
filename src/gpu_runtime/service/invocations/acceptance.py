"""Accepts invocations: one publish that succeeds only if the id is new."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import structlog

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.rest.errors import InvocationConflict, QueueFull, TooLarge, Unavailable
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import ANSWER_SECONDS, Broker
from gpu_runtime.serverless.broker.errors import BrokerError, Full, NoAnswer
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.messages import DEADLINE, HASH, SUBMISSION, InvocationMessage, encode
from gpu_runtime.serverless.subjects import Function, Priority, Run
from gpu_runtime.service.invocations.functions import Functions, Policy
from gpu_runtime.service.invocations.lookup import FoundRun, Lookup, broker_away
from gpu_runtime.service.invocations.submission import Submission

CONFIRM_SECONDS = 15.0
"""How long a publish is repeated that the broker does not answer. Less than the time of a request."""
PAUSE_SECONDS = 0.2
ACCEPT_SECONDS = CONFIRM_SECONDS + 4 * ANSWER_SECONDS
"""What an acceptance takes at most: a look for the id, the publishes, and a look at what is stored."""
FULL_RETRY_SECONDS = 5

_log = structlog.get_logger("invocations")


@dataclass(frozen=True)
class Accepted:
    """An invocation that the broker has on disk."""

    found: FoundRun
    duplicate: bool


class Acceptance:
    """Publishes invocations."""

    def __init__(
        self,
        broker: Broker,
        lookup: Lookup,
        functions: Functions,
        backlog: Backlog,
        *,
        most_payload_bytes: int,
        max_age_seconds: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._broker, self._lookup, self._functions, self._backlog = broker, lookup, functions, backlog
        self._most_payload_bytes = most_payload_bytes
        self._max_age_seconds = max_age_seconds
        self._clock = clock

    async def accept(self, submission: Submission) -> Accepted:
        """Returns when the broker has the invocation on disk, from this request or an equal one before it."""
        submission = submission.with_id()
        if not submission.is_new:
            # Also finds an id that only the database remembers. The publish below decides among concurrent requests.
            found = await self._lookup.find(submission.function, submission.invocation_id)
            if found is not None:
                return replayed(submission, found)
        self._check_size(submission)
        policy = await self.admit(submission.function)
        run = Run(submission.function, submission.invocation_id, 1)
        message = await self._message(submission, run, policy)
        return await self._publish(submission, message)

    def _check_size(self, submission: Submission) -> None:
        size = len(submission.payload.data)
        if size > self._most_payload_bytes:
            raise TooLarge(f"payload: {size} bytes are more than {self._most_payload_bytes}, the limit")

    async def admit(self, function: Function) -> Policy:
        """The policy of a function that takes invocations now; otherwise Missing, Clash or QueueFull."""
        policy = await self._functions.require(function)
        if policy.queue_limit is not None and self._backlog.load(function) >= policy.queue_limit:
            raise QueueFull(
                f"{policy.queue_limit} invocations of function {function.name} have not ended, which is its queueLimit:"
                " send the request again later",
                retry_after=FULL_RETRY_SECONDS,
            )
        return policy

    async def _message(self, submission: Submission, run: Run, policy: Policy) -> InvocationMessage:
        request, payload = submission.request, submission.payload
        now = self._clock.now()
        seconds = request.timeoutSeconds or self._max_age_seconds
        try:
            body = await bodies.store(self._broker, run, payload.data, is_json=payload.is_json)
        except Full as error:
            raise Unavailable(f"there is no room for the payload: {error}", retry_after=FULL_RETRY_SECONDS) from error
        except BrokerError as error:
            raise broker_away(error) from error
        return InvocationMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            mode=request.mode,
            contentType=payload.content_type,
            headers=request.headers,
            attributes=request.attributes,
            payload=body,
            runSeconds=None if request.timeoutSeconds is not None else policy.run_seconds,
            deadline=now + timedelta(seconds=seconds),
            acceptedAt=now,
            retry=policy.retry,
        )

    async def _publish(self, submission: Submission, message: InvocationMessage) -> Accepted:
        mine = uuid4().hex
        stored = await publish_invocation(
            self._broker,
            message,
            priority=submission.request.priority,
            request_hash=submission.request_hash,
            submission=mine,
        )
        if stored:
            return Accepted(
                FoundRun(
                    message.of, message.acceptedAt, submission.request_hash, submission.request.priority, mine, message
                ),
                duplicate=False,
            )
        try:
            found = await self._lookup.require(submission.function, message.invocationID)
        except Unavailable as error:
            raise unconfirmed(message.of) from error
        if found.submission == mine:  # an earlier publish of this request arrived, and its answer was lost
            return Accepted(found, duplicate=False)
        return replayed(submission, found)


def replayed(submission: Submission, found: FoundRun) -> Accepted:
    """The invocation that exists. InvocationConflict if it was accepted from another request."""
    if found.request_hash != submission.request_hash:
        raise InvocationConflict(
            f"invocationID {found.run.invocation_id} of function {found.run.function.name} was used for another"
            " request: choose another id"
        )
    return Accepted(found, duplicate=True)


async def publish_invocation(
    broker: Broker, message: InvocationMessage, *, priority: Priority, request_hash: str, submission: str
) -> bool:
    """Whether this call stored the message. False: the subject had one, which may be from an unanswered publish of
    this call. Unavailable if the broker is full, is away, or does not answer in time."""
    run = message.of
    if broker.problem:
        raise Unavailable(f"the broker is away: {broker.problem}")
    headers = {
        HASH: request_hash,
        DEADLINE: str(int(message.deadline.timestamp() * 1000)),
        SUBMISSION: submission,
    }
    data = encode(message)
    limit = asyncio.get_running_loop().time() + CONFIRM_SECONDS
    unanswered = False
    while True:
        try:
            sequence = await publish_once(
                broker, subjects.accepted(run, priority), data, headers=headers, free=subjects.accepted_any(run)
            )
        except NoAnswer as error:
            unanswered = True
            if asyncio.get_running_loop().time() > limit:
                raise unconfirmed(run) from error
            await asyncio.sleep(PAUSE_SECONDS)
        except Full as error:
            if unanswered and await _is_stored(broker, run):
                return False
            raise Unavailable(f"the queue is full: {error}", retry_after=FULL_RETRY_SECONDS) from error
        except BrokerError as error:
            raise broker_away(error) from error
        else:
            return sequence is not None


async def _is_stored(broker: Broker, run: Run) -> bool:
    try:
        return await last(broker, INVOCATIONS, subjects.accepted_any(run)) is not None
    except BrokerError as error:
        raise unconfirmed(run) from error


def unconfirmed(run: Run) -> Unavailable:
    return Unavailable(
        f"the broker did not answer: invocation {run.invocation_id} may have been accepted or not. Send the same"
        f" request again with invocationID {run.invocation_id}"
    )
