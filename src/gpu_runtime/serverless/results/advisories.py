"""The broker's reports of messages that were delivered as often as their consumer allows."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.results.deliveries import Delivery
from gpu_runtime.serverless.results.records import DeadLetter
from gpu_runtime.serverless.subjects import Run

SUBJECT = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{INVOCATIONS}.>"


class MaxDeliveries(Struct, frozen=True):
    """The part of the broker's advisory that we use."""

    stream: str
    consumer: str
    stream_seq: int
    deliveries: int
    timestamp: datetime


_advisories = msgspec.json.Decoder(MaxDeliveries)


def read(data: bytes) -> MaxDeliveries:
    """msgspec.MsgspecError if it is something else."""
    return _advisories.decode(data)


def dead_letter(advisory: MaxDeliveries, message: Delivery | None) -> DeadLetter:
    """`message` is None if the stream does not hold it any more."""
    gone = "" if message else "; the stream does not hold the message any more"
    return DeadLetter(
        id=f"max_deliver.{advisory.stream}.{advisory.consumer}.{advisory.stream_seq}",
        source="max_deliver",
        failed_at=advisory.timestamp,
        failure_class="retry_exhausted",
        error=f"consumer {advisory.consumer} had the message {advisory.deliveries} times and never finished it{gone}",
        attempts=advisory.deliveries,
        run=_run(message.subject) if message else None,
        subject=message.subject if message else "",
        stream=advisory.stream,
        consumer=advisory.consumer,
        sequence=advisory.stream_seq,
        headers=dict(message.headers) if message else {},
        content=message.data if message else None,
    )


def _run(subject: str) -> Run | None:
    with suppress(ValueError):
        return subjects.parse_accepted(subject)[0]
    with suppress(ValueError):
        return subjects.parse_ended(subject)
    return None
