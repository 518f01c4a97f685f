"""Pulls invocations from the function's two consumers, those of high priority first.

While there is a free place, one request for one message is open at each consumer. A request for a normal message is
sent only when the consumer of high priority is known to be empty: it said so, or its open request is unanswered. So
the worker holds at most one message more than it can run. Requests end by themselves after some seconds: the broker
alone decides that, so no message is ever sent to a request that nobody waits for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog
from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.subjects import Function, Priority

CHECK_SECONDS = 0.5
"""How often lost requests are looked for when nothing else happens."""
GRACE_SECONDS = 1.0
"""An answer this late counts as lost: the broker was restarted, or the connection."""
PROBE_SECONDS = 1.0
NANOSECONDS = 1_000_000_000
_pauses = Exponential(0.1, 2.0)

NO_MESSAGES, TIMED_OUT = "404", "408"
NO_ANSWERS = "the broker does not answer requests for invocations: may the worker's credentials send them?"


@dataclass
class Source:
    """One consumer, and the request that is open there."""

    priority: Priority
    subject: str
    inbox: str = ""
    number: int = 0
    open_until: float | None = None
    """When the open request counts as lost; None: no request is open."""
    lingers: bool = False
    """Whether the open request waits for a message. Otherwise it only asks whether there is one."""
    empty: bool = False
    """Whether the last answer was that there is no message."""
    lost: int = 0
    """Requests in a row that were not answered."""
    failures: int = 0
    blocked_until: float = 0.0
    problem: str = ""


@dataclass
class Puller:
    broker: Broker
    function: Function
    seconds: float
    wanted: Callable[[], bool]
    """Whether another message may be requested now."""
    take: Callable[[Msg], None]
    changed: Callable[[], None]
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _connections: int = 0

    def __post_init__(self) -> None:
        self._high, self._normal = (
            Source(priority, f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{subjects.consumer(self.function, priority)}")
            for priority in ("high", "normal")
        )
        self._log = structlog.get_logger("puller")

    @property
    def problem(self) -> str:
        """Why no message can be requested; empty when they can."""
        return self._normal.problem or self._high.problem

    @property
    def waiting(self) -> bool:
        """Whether a message may still come."""
        return any(source.open_until is not None for source in (self._high, self._normal))

    def wake(self) -> None:
        """Something changed that `wanted` depends on."""
        self._wake.set()

    async def run(self) -> None:
        await self.broker.connected()
        for source in (self._high, self._normal):
            source.inbox = self.broker.nats.new_inbox()
            await self.broker.nats.subscribe(f"{source.inbox}.*", cb=partial(self._answered, source))
        while True:
            self._forget_lost_requests()
            if self.wanted() and not self.broker.problem:
                await self._request()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _request(self) -> None:
        now = time.monotonic()
        high, normal = self._high, self._normal
        if high.open_until is None and now >= high.blocked_until:
            await self._send(high, lingers=high.empty)
        high_is_empty = high.lingers if high.open_until is not None else now < high.blocked_until
        if high_is_empty and normal.open_until is None and now >= normal.blocked_until:
            await self._send(normal, lingers=True)

    async def _send(self, source: Source, *, lingers: bool) -> None:
        seconds = self.seconds if lingers else PROBE_SECONDS
        body = {"batch": 1, "expires": int(seconds * NANOSECONDS)} if lingers else {"batch": 1, "no_wait": True}
        source.number += 1
        source.lingers, source.empty = lingers, False
        source.open_until = time.monotonic() + seconds + GRACE_SECONDS
        with suppress(Error, OSError):
            await self.broker.nats.publish(
                source.subject, json.dumps(body).encode(), reply=f"{source.inbox}.{source.number}"
            )

    async def _answered(self, source: Source, message: Msg) -> None:
        """A message, or the end of a request."""
        status = (message.headers or {}).get("Status")
        source.lost = 0
        if status is None:
            source.open_until = None
            self._set_problem(source, "")
            self.take(message)
        elif message.subject == f"{source.inbox}.{source.number}":  # the end of an earlier request says nothing now
            source.open_until = None
            source.empty = status in (NO_MESSAGES, TIMED_OUT)
            self._set_problem(source, "" if source.empty else _words(source, status, message))
            if not source.empty:
                source.blocked_until = time.monotonic() + _pauses.after(source.failures)
                source.failures += 1
        self._closed()

    def _forget_lost_requests(self) -> None:
        """After a reconnect the broker has no requests of ours; and an answer may be lost without one."""
        connections = self.broker.nats.stats["reconnects"]
        for source in (self._high, self._normal):
            if source.open_until is None:
                continue
            reconnected, late = connections != self._connections, time.monotonic() > source.open_until
            if late and not reconnected:
                source.lost += 1
                if source.lost > 1:
                    self._set_problem(source, NO_ANSWERS)
            if reconnected or late:
                source.open_until = None
                self._closed()
        self._connections = connections

    def _closed(self) -> None:
        """A request is not open any more."""
        self.wake()
        if not self.waiting and not self.wanted():
            self.changed()  # nothing can come any more: a draining worker waits for that

    def _set_problem(self, source: Source, problem: str) -> None:
        if not problem:
            source.failures = 0
        if problem != source.problem:
            source.problem = problem
            if problem:
                self._log.warning("no invocations can be pulled", problem=problem)
            self.changed()


def _words(source: Source, status: str, message: Msg) -> str:
    if status == "503":
        return f"waiting for the function's queue: it has no consumer for {source.priority} priority yet"
    return f"the broker answers {status} {(message.headers or {}).get('Description', '')}".rstrip()
