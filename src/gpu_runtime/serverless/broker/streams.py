"""The three streams. Only the runtime-api creates them; nobody changes a stream that has other settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_runtime.config.nats import StreamSettings
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.stream_names import BODIES, INVOCATIONS, RESULTS

__all__ = ["BODIES", "INVOCATIONS", "RESULTS", "compare", "ensure", "read", "wanted"]

NOT_FOUND = 10059
ALREADY_THERE = 10058
NANOSECONDS = 1_000_000_000
MOST_CONSUMERS = 1_000_000
"""Each function has two. Without a number the broker allows 1,000 for a stream."""


def wanted(settings: StreamSettings) -> dict[str, dict[str, Any]]:
    """The settings of each stream, as JetStream writes them. Pure."""
    common = {
        "retention": "limits",
        "discard": "new",  # a full stream refuses; it never drops what was accepted
        "storage": "file",
        "num_replicas": settings.replicas,
        "allow_direct": True,
        "max_msgs": -1,
        "max_consumers": MOST_CONSUMERS,
        "max_msg_size": -1,
    }
    return {
        INVOCATIONS: {**common, "subjects": ["inv.>"], "max_bytes": settings.invocationsBytes, "max_age": 0},
        RESULTS: {**common, "subjects": ["res.>"], "max_bytes": settings.resultsBytes, "max_age": 0},
        BODIES: {
            **common,
            "subjects": ["body.>"],
            "max_bytes": settings.bodiesBytes,
            "max_age": settings.bodiesSeconds * NANOSECONDS,
        },
    }


async def ensure(broker: Broker, settings: StreamSettings) -> list[str]:
    """Creates the streams that are missing. Returns the differences of those that exist, in words."""
    differences = []
    for name, config in wanted(settings).items():
        live = await read(broker, name)
        if live is None:
            answer = await _ask(broker, f"$JS.API.STREAM.CREATE.{name}", {"name": name, **config})
            problem = answer.get("error")
            if problem is None:
                continue
            if problem.get("err_code") != ALREADY_THERE:
                raise BrokerError(f"stream {name} cannot be created: {problem.get('description')}")
            live = await read(broker, name) or {}
        differences += list(compare(name, config, live))
    return differences


async def read(broker: Broker, name: str) -> dict[str, Any] | None:
    """The live settings of a stream; None if there is no such stream."""
    answer = await _ask(broker, f"$JS.API.STREAM.INFO.{name}", {})
    problem = answer.get("error")
    if problem is None:
        config: dict[str, Any] = answer["config"]
        return config
    if problem.get("err_code") == NOT_FOUND:
        return None
    raise BrokerError(f"stream {name} cannot be read: {problem.get('description')}")


def compare(name: str, config: Mapping[str, Any], live: Mapping[str, Any]) -> Iterable[str]:
    """The settings that differ, for people."""
    for key, value in config.items():
        # The broker leaves out what is false or zero.
        if live.get(key, type(value)()) != value:
            yield f"stream {name} has {key} {live.get(key)!r}, not {value!r}"


async def _ask(broker: Broker, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await broker.request(subject, json.dumps(body).encode())).data)
    return answer
