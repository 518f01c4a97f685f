"""Publishes invocations and ends as the runtime-api and the workers do."""

from __future__ import annotations

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.messages import HASH, STATE, InvocationMessage, ResultMessage, encode


async def accept(broker: Broker, message: InvocationMessage, request_hash: str = "hash-1") -> None:
    subject = subjects.accepted(message.of, "normal")
    assert await publish_once(broker, subject, encode(message), headers={HASH: request_hash})


async def end(broker: Broker, message: ResultMessage) -> None:
    subject = subjects.ended(message.of)
    assert await publish_once(broker, subject, encode(message), headers={STATE: message.state})
