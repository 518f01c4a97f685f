"""Turns messages of the broker into records. Pure: the same message always makes the same records.

A message that cannot be read becomes a dead letter with its bytes. If its subject names a run, the run gets its record,
too: an unreadable invocation was accepted, and a run whose terminal event is unreadable can never get another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.messages import HASH, InvocationMessage, ResultMessage
from gpu_runtime.serverless.results.base import Batch
from gpu_runtime.serverless.results.records import Acceptance, DeadLetter, End
from gpu_runtime.serverless.subjects import Run

MOST_RUNS = 2**31 - 1
UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)
"""RecursionError: arrays in arrays, more than the decoder follows."""
_invocations = msgspec.json.Decoder(InvocationMessage)
_results = msgspec.json.Decoder(ResultMessage)


@dataclass(frozen=True)
class Delivery:
    """A message of a stream."""

    subject: str
    data: bytes
    stored_at: datetime
    stream: str
    sequence: int
    headers: Mapping[str, str] = field(default_factory=dict)
    consumer: str = ""
    deliveries: int = 1


def read_invocation(delivery: Delivery) -> Batch:
    try:
        run, priority = subjects.parse_accepted(delivery.subject)
        _check(run)
    except ValueError as error:
        return Batch(dead_letters=[malformed(delivery, str(error))])
    request_hash = delivery.headers.get(HASH, "")
    try:
        message = _invocations.decode(delivery.data)
        _check_names(message, run)
    except UNREADABLE as error:
        letter = malformed(delivery, f"the invocation cannot be read: {error}", run)
        return Batch([Acceptance(run, request_hash, priority, delivery.stored_at, None)], dead_letters=[letter])
    return Batch([Acceptance(run, request_hash, priority, _aware(message.acceptedAt), message)])


def read_end(delivery: Delivery) -> Batch:
    try:
        run = subjects.parse_ended(delivery.subject)
        _check(run)
    except ValueError as error:
        return Batch(dead_letters=[malformed(delivery, str(error))])
    try:
        message = _results.decode(delivery.data)
        _check_names(message, run)
    except UNREADABLE as error:
        letter = malformed(delivery, f"the end of the run cannot be read: {error}", run)
        return Batch(
            ends=[End(_unreadable_end(run, delivery, letter.error), delivery.stored_at)], dead_letters=[letter]
        )
    return Batch(ends=[End(message, delivery.stored_at)])


def malformed(delivery: Delivery, error: str, run: Run | None = None) -> DeadLetter:
    """Sequences begin anew with a new stream, so the bytes are part of the id."""
    digest = sha256(delivery.data).hexdigest()[:12]
    return DeadLetter(
        id=f"malformed.{delivery.stream}.{delivery.sequence}.{digest}",
        source="malformed",
        failed_at=delivery.stored_at,
        failure_class="malformed_message",
        error=error,
        attempts=delivery.deliveries,
        run=run,
        subject=delivery.subject,
        stream=delivery.stream,
        consumer=delivery.consumer,
        sequence=delivery.sequence,
        headers=dict(delivery.headers),
        content=delivery.data,
    )


def together(batches: list[Batch]) -> Batch:
    return Batch(
        [each for batch in batches for each in batch.acceptances],
        [each for batch in batches for each in batch.ends],
        [each for batch in batches for each in batch.dead_letters],
    )


def _check(run: Run) -> None:
    """ValueError for a subject that no process of ours publishes to, and that the key columns might not hold."""
    _ = run.scope
    if run.number > MOST_RUNS:
        raise ValueError(f"run {run.number} is more than a number of a run can be")


def _check_names(message: InvocationMessage | ResultMessage, run: Run) -> None:
    if message.of != run:
        raise ValueError(f"it says that it is of {message.of}")


def _unreadable_end(run: Run, delivery: Delivery, error: str) -> ResultMessage:
    return ResultMessage(
        invocationID=run.invocation_id,
        serverlessRequestID=run.function.name,
        namespace=run.function.namespace,
        run=run.number,
        state="dead_lettered",
        failureClass="malformed_message",
        error=error,
        completedAt=delivery.stored_at,
    )


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
