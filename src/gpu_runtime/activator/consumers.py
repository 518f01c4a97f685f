"""The durable consumers that the workers of a function share. Only the activator makes and deletes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.following import reconnects
from gpu_runtime.serverless.subjects import Function, Priority

PRIORITIES: tuple[Priority, ...] = get_args(Priority)
NANOSECONDS = 1_000_000_000
NOT_FOUND = 10014
PULLS = 4096  # requests that wait at one consumer; each worker has one at a time


class Consumers:
    """Knows which consumers exist: it reads all of them once, and again after each new connection."""

    def __init__(self, broker: Broker, ack_wait_seconds: float) -> None:
        self._broker = broker
        self._ack_wait_seconds = ack_wait_seconds
        self._known: set[str] = set()
        self._connection: int | None = None

    async def ensure(self, function: Function) -> None:
        """Creates the consumers of the function that do not exist."""
        await self._read()
        for priority in PRIORITIES:
            name = subjects.consumer(function, priority)
            if name not in self._known:
                config = self._config(function, priority)
                await self._ask(
                    f"CREATE.{INVOCATIONS}.{name}.{config['filter_subject']}",
                    {"stream_name": INVOCATIONS, "config": config},
                )
                self._known.add(name)

    async def remove(self, function: Function) -> None:
        """Deletes the consumers of the function."""
        await self._read()
        for priority in PRIORITIES:
            name = subjects.consumer(function, priority)
            if name in self._known:
                await self._ask(f"DELETE.{INVOCATIONS}.{name}", {}, allowed=NOT_FOUND)
                self._known.discard(name)

    def exist(self, function: Function) -> bool:
        """Whether there is a consumer of the function, as far as is known."""
        return any(subjects.consumer(function, priority) in self._known for priority in PRIORITIES)

    async def functions(self) -> set[Function]:
        """The functions that have consumers."""
        await self._read()
        return {function for name in self._known if (function := _function(name)) is not None}

    async def _read(self) -> None:
        connection = reconnects(self._broker)
        if connection == self._connection:
            return
        known: set[str] = set()
        offset, total = 0, 1
        while offset < total:
            page = await self._ask(f"LIST.{INVOCATIONS}", {"offset": offset})
            known |= {each["name"] for each in page["consumers"] if self._is_current(each["config"])}
            offset, total = offset + max(1, len(page["consumers"])), page["total"]
        self._known, self._connection = known, connection

    def _is_current(self, config: Mapping[str, Any]) -> bool:
        return bool(config.get("durable_name")) and config.get("ack_wait") == self._ack_wait_nanoseconds

    @property
    def _ack_wait_nanoseconds(self) -> int:
        return int(self._ack_wait_seconds * NANOSECONDS)

    def _config(self, function: Function, priority: Priority) -> dict[str, Any]:
        return {
            "durable_name": subjects.consumer(function, priority),
            "filter_subject": subjects.consumer_filter(function, priority),
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": self._ack_wait_nanoseconds,
            "max_deliver": -1,  # the worker counts, so that an invocation always gets an end
            "max_ack_pending": -1,  # tries that wait for their back-off must not hold up others
            "max_waiting": PULLS,
        }

    async def _ask(self, request: str, body: Mapping[str, Any], *, allowed: int | None = None) -> dict[str, Any]:
        content = json.dumps(body).encode()
        answer: dict[str, Any] = json.loads((await self._broker.request(f"$JS.API.CONSUMER.{request}", content)).data)
        problem = answer.get("error")
        if problem is not None and problem.get("err_code") != allowed:
            raise BrokerError(f"the broker answered to CONSUMER.{request}: {problem.get('description')}")
        return answer


def _function(consumer: str) -> Function | None:
    """The function of a consumer's name; None for consumers of other processes."""
    match consumer.split("__"):
        case [namespace, name, "n" | "h"]:
            return Function(namespace, name)
    return None
