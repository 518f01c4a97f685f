"""Records as columns: what is searched has a column, the rest is JSON bytes.

JSON is kept as bytes, so that every string of a message survives: PostgreSQL's text cannot hold a NUL. Payload and body
have columns of their own, so that a list does not read them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from gpu_runtime.serverless.messages import EMPTY_BODY, Body, InvocationMessage, ResultMessage
from gpu_runtime.serverless.results.database import Row, Value
from gpu_runtime.serverless.results.records import Acceptance, DeadLetter, End, StoredRun
from gpu_runtime.serverless.subjects import Function, Priority, Run

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROW_BYTES = 300
"""About what a row needs besides its JSON, indexes included."""


class StoredAcceptance(Struct, frozen=True, omit_defaults=True):
    """The JSON of an acceptance."""

    requestHash: str
    priority: Priority
    acceptedAt: datetime
    message: InvocationMessage | None = None


class StoredDeadLetter(Struct, frozen=True, omit_defaults=True):
    """The JSON of a dead letter that is not a run."""

    failureClass: str
    error: str
    attempts: int
    subject: str = ""
    stream: str = ""
    consumer: str = ""
    sequence: int = 0
    headers: dict[str, str] = {}


_encode = msgspec.json.encode
_acceptances = msgspec.json.Decoder(StoredAcceptance)
_results = msgspec.json.Decoder(ResultMessage)
_dead_letters = msgspec.json.Decoder(StoredDeadLetter)
_bodies = msgspec.json.Decoder(Body)


def to_micros(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def key(run: Run) -> tuple[str, str, str, int]:
    return (run.function.namespace, run.function.name, run.invocation_id, run.number)


def from_key(row: Row) -> Run:
    namespace, function, invocation_id, number = row[:4]
    return Run(Function(namespace, function), invocation_id, number)


def acceptance_values(acceptance: Acceptance) -> tuple[Value, ...]:
    """namespace, function, id, run, accepted_at, large_payload, size, invocation, payload"""
    message, payload = acceptance.message, None
    large = 0
    if message is not None:
        large = int(message.payload.ref is not None)
        message, payload = (
            msgspec.structs.replace(message, payload=_reference(message.payload)),
            _inline(message.payload),
        )
    details = _encode(
        StoredAcceptance(clean(acceptance.request_hash), acceptance.priority, acceptance.accepted_at, message)
    )
    size = ROW_BYTES + len(details) + len(payload or b"")
    return (*key(acceptance.run), to_micros(acceptance.accepted_at), large, size, details, payload)


def end_values(end: End) -> tuple[Value, ...]:
    """namespace, function, id, run, accepted_at, state, ended_at, large_result, size, result, body"""
    message, body = end.message, _inline(end.message.body)
    details = _encode(msgspec.structs.replace(message, body=_reference(message.body)))
    size = ROW_BYTES + len(details) + len(body or b"")
    accepted, large = to_micros(message.acceptedAt or message.completedAt), int(message.body.ref is not None)
    return (*key(message.of), accepted, message.state, to_micros(end.ended_at), large, size, details, body)


def dead_letter_values(letter: DeadLetter) -> tuple[Value, ...]:
    """letter, failed_at, source, namespace, function, id, run, size, details, content"""
    details = _encode(
        StoredDeadLetter(
            letter.failure_class,
            clean(letter.error),
            letter.attempts,
            clean(letter.subject),
            clean(letter.stream),
            clean(letter.consumer),
            letter.sequence,
            {clean(name): clean(value) for name, value in letter.headers.items()},
        )
    )
    run = key(letter.run) if letter.run else (None, None, None, None)
    size = ROW_BYTES + len(details) + len(letter.content or b"")
    return (letter.id, to_micros(letter.failed_at), letter.source, *run, size, details, letter.content)


def stored_run(row: Row) -> StoredRun:
    """namespace, function, id, run, accepted_at, invocation, result, payload, body"""
    run, accepted_at = from_key(row), from_micros(row[4])
    invocation, result, payload, body = row[5:9]
    return StoredRun(
        run,
        accepted_at,
        _acceptance(run, invocation, payload) if invocation is not None else None,
        _with_body(_results.decode(result), "body", body) if result is not None else None,
    )


def dead_letter(row: Row) -> DeadLetter:
    """letter, failed_at, source, namespace, function, id, run, redriven, details, content"""
    letter, failed_at, source = row[:3]
    run = from_key(row[3:7]) if row[6] is not None else None
    if source == "run":
        end = _results.decode(row[8])
        reason = end.failureClass or "", end.error or "", end.attempts
        return DeadLetter(letter, source, from_micros(failed_at), *reason, run=run, redriven=bool(row[7]))
    found = _dead_letters.decode(row[8])
    return DeadLetter(
        letter,
        source,
        from_micros(failed_at),
        found.failureClass,
        found.error,
        found.attempts,
        run,
        bool(row[7]),
        found.subject,
        found.stream,
        found.consumer,
        found.sequence,
        found.headers,
        row[9],
    )


def clean(text: str) -> str:
    """Text from outside that JSON can hold: half characters are replaced."""
    return text.encode(errors="replace").decode()


def _acceptance(run: Run, invocation: bytes, payload: bytes | None) -> Acceptance:
    found = _acceptances.decode(invocation)
    message = _with_body(found.message, "payload", payload) if found.message is not None else None
    return Acceptance(run, found.requestHash, found.priority, found.acceptedAt, message)


def _inline(body: Body) -> bytes | None:
    return _encode(body) if body.ref is None and (len(body.json) or body.base64) else None


def _reference(body: Body) -> Body:
    return body if body.ref is not None else EMPTY_BODY


def _with_body(message: Any, field: str, body: bytes | None) -> Any:
    return msgspec.structs.replace(message, **{field: _bodies.decode(body)}) if body is not None else message
