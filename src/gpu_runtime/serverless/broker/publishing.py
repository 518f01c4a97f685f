"""Publishes that succeed only if nothing was published before, and reads of what was."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nats.aio.msg import Msg

from gpu_runtime.serverless.broker.connection import ANSWER_SECONDS, Broker
from gpu_runtime.serverless.broker.errors import BrokerError, Full, NoAnswer, NotConfigured

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"

# Error codes of JetStream.
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
FULL = frozenset({10023, 10028, 10047, 10077, 10122})
"""Insufficient resources, storage or memory exceeded, limits of the stream or the account."""


@dataclass(frozen=True)
class StoredMessage:
    """A message as the stream holds it."""

    subject: str
    sequence: int
    stored_at: datetime
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


async def publish_once(
    broker: Broker,
    subject: str,
    payload: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    free: str | None = None,
    seconds: float = ANSWER_SECONDS,
) -> int | None:
    """Stores the message if no message of the subject is stored; its sequence, or None if there is one already.

    `free` is a filter with wildcards that must match no stored message. Exactly one of all publishers gets a sequence.
    NoAnswer: it may be stored or not. Full: it is not.
    """
    condition = {EXPECTED_LAST: "0", **({EXPECTED_SUBJECT: free} if free is not None else {})}
    answer = await broker.request(subject, payload, headers={**(headers or {}), **condition}, seconds=seconds)
    return _sequence(answer)


async def publish(broker: Broker, subject: str, payload: bytes, *, seconds: float = ANSWER_SECONDS) -> int:
    """Stores the message, whatever the subject holds."""
    sequence = _sequence(await broker.request(subject, payload, seconds=seconds))
    assert sequence is not None, "there was no condition to fail"
    return sequence


async def last(broker: Broker, stream: str, subject: str) -> StoredMessage | None:
    """The last message of the subject, asked of the stream's leader. The subject may have wildcards."""
    body = json.dumps({"last_by_subj": subject}).encode()
    answer = json.loads((await broker.request(f"$JS.API.STREAM.MSG.GET.{stream}", body)).data)
    if "error" in answer:
        if answer["error"].get("err_code") == 10037:
            return None
        raise _refused(answer["error"])
    return _from_leader(answer["message"])


async def last_direct(broker: Broker, stream: str, subject: str) -> StoredMessage | None:
    """The last message of the subject, from any replica: None may be out of date by a moment.

    Its permission can be limited to the subject, which workers need.
    """
    answer = await broker.request(f"$JS.API.DIRECT.GET.{stream}.{subject}")
    headers = dict(answer.headers or {})
    status = headers.get("Status")
    if status == "404":
        return None
    if status is not None:
        raise NotConfigured(f"the broker answered {status} {headers.get('Description', '')} to a read of {subject}")
    return _from_replica(answer, headers)


def _sequence(answer: Msg) -> int | None:
    try:
        said: dict[str, Any] = json.loads(answer.data)
    except ValueError as error:
        raise BrokerError("the broker answered a publish with something else than JSON") from error
    problem = said.get("error")
    if problem is None:
        return int(said["seq"])
    if problem.get("err_code") in WRONG_LAST_SEQUENCE:
        return None
    raise _refused(problem)


def _refused(problem: Mapping[str, Any]) -> BrokerError:
    message = f"the broker answered: {problem.get('description', 'error')}"
    if problem.get("err_code") in FULL:
        return Full(message)
    if problem.get("code") == 503:  # no leader, or JetStream is not there: it may be stored or not
        return NoAnswer(message)
    return BrokerError(message)


def _from_leader(message: Mapping[str, Any]) -> StoredMessage:
    return StoredMessage(
        subject=message["subject"],
        sequence=message["seq"],
        stored_at=_time(message["time"]),
        data=b64decode(message.get("data") or ""),
        headers=_headers(b64decode(message.get("hdrs") or "")),
    )


def _from_replica(answer: Msg, headers: Mapping[str, str]) -> StoredMessage:
    return StoredMessage(
        subject=headers["Nats-Subject"],
        sequence=int(headers["Nats-Sequence"]),
        stored_at=_time(headers["Nats-Time-Stamp"]),
        data=answer.data,
        headers=headers,
    )


def _headers(raw: bytes) -> dict[str, str]:
    """Parses headers as the broker stores them: a version line, then `name: value` lines."""
    lines = raw.decode(errors="replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def _time(text: str) -> datetime:
    """RFC 3339 with nanoseconds, which datetime cannot hold."""
    whole, _, rest = text.partition(".")
    fraction = rest.removesuffix("Z")[:6] if rest else "0"
    return datetime.fromisoformat(f"{whole.removesuffix('Z')}.{fraction:0<6}+00:00")
