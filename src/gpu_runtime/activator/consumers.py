"""The durable consumers that the workers of a function share. Only the activator makes and deletes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, get_args

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.following import reconnects
from gpu_runtime.serverless.subjects import Function, Priority

PRIORITIES: tuple[Priority, ...] = get_args(Priority)
NANOSECONDS = 1_000_000_000
NOT_FOUND = 10014
READ_AGAIN_SECONDS = 60.0
PULLS = 4096  # requests that wait at one consumer; each worker has one at a time


class Consumers:
    """Knows which consumers exist: it reads all of them after each new connection, and again from time to time, because
    others can delete them."""

    def __init__(self, broker: Broker, backlog: Backlog, ack_wait_seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._broker = broker
        self._backlog = backlog
        self._ack_wait_seconds = ack_wait_seconds
        self._clock = clock
        self._known: set[str] = set()
        self._outdated: dict[str, dict[str, Any]] = {}
        """Consumers with another ack_wait, by name."""
        self._reading = asyncio.Lock()
        self._connection: int | None = None
        self._read_at = 0.0

    async def ensure(self, function: Function) -> None:
        """Creates the consumers of the function, and updates those with another ack_wait."""
        await self._read()
        for priority in PRIORITIES:
            name = subjects.consumer(function, priority)
            if name not in self._known:
                config = self._outdated.pop(name, None) or self._config(function, priority)
                config = {**config, "ack_wait": self._ack_wait_nanoseconds}
                await self._create(name, config)

    async def remove(self, function: Function) -> None:
        """Deletes the consumers of the function."""
        await self._read()
        for priority in PRIORITIES:
            name = subjects.consumer(function, priority)
            if name in self._known or name in self._outdated:
                await self._ask(f"DELETE.{INVOCATIONS}.{name}", {}, allowed=NOT_FOUND)
                self._known.discard(name)
                self._outdated.pop(name, None)

    async def lacks(self, function: Function) -> bool:
        """Whether a consumer of the function is missing."""
        await self._read()
        return any(subjects.consumer(function, priority) not in self._known for priority in PRIORITIES)

    async def functions(self) -> set[Function]:
        """The functions that have consumers."""
        await self._read()
        return {function for name in (*self._known, *self._outdated) if (function := _function(name)) is not None}

    async def _create(self, name: str, config: Mapping[str, Any]) -> None:
        request = f"CREATE.{INVOCATIONS}.{name}.{config['filter_subject']}"
        try:
            await self._ask(request, {"stream_name": INVOCATIONS, "config": config})
        except BrokerError:
            self._connection = None  # another activator may have made it: the next reading shows it
            raise
        self._known.add(name)

    async def _read(self) -> None:
        async with self._reading:
            connection, now = reconnects(self._broker), self._clock.monotonic()
            if connection == self._connection and now - self._read_at < READ_AGAIN_SECONDS:
                return
            found = await self._list()
            wait = self._ack_wait_nanoseconds
            self._known = {name for name, config in found.items() if config.get("ack_wait") == wait}
            self._outdated = {name: config for name, config in found.items() if name not in self._known}
            self._connection, self._read_at = connection, now

    async def _list(self) -> dict[str, dict[str, Any]]:
        """The settings of all functions' consumers, by name."""
        found: dict[str, dict[str, Any]] = {}
        offset, total = 0, 1
        while offset < total:
            page = await self._ask(f"LIST.{INVOCATIONS}", {"offset": offset})
            found |= {each["name"]: each["config"] for each in page["consumers"] if _function(each["name"])}
            offset, total = offset + max(1, len(page["consumers"])), page["total"]
        return found

    @property
    def _ack_wait_nanoseconds(self) -> int:
        return int(self._ack_wait_seconds * NANOSECONDS)

    def _config(self, function: Function, priority: Priority) -> dict[str, Any]:
        """A new consumer begins with the first unfinished run: what ended before need not be delivered again."""
        return {
            "durable_name": subjects.consumer(function, priority),
            "filter_subject": subjects.consumer_filter(function, priority),
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._backlog.first_unfinished(function),
            "ack_policy": "explicit",
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
