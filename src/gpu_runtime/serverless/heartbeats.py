"""The last heartbeat of each worker. A worker that was not heard for a while is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog
from nats.aio.msg import Msg
from nats.errors import Error

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.following import reconnects
from gpu_runtime.serverless.messages import WorkerHeartbeat
from gpu_runtime.serverless.subjects import Function

EXPIRY_SECONDS = 10.0
ALL_WORKERS = "wrk.>"
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a worker said, and when we heard it by our own monotonic clock. Clocks of machines may differ."""

    said: WorkerHeartbeat
    heard: float

    def idle_seconds(self, now: float) -> float:
        """How long the worker has had no work: its own measure, plus the time since."""
        if self.said.idleSince is None:
            return 0.0
        return max(0.0, self.said.sentAt - self.said.idleSince) + max(0.0, now - self.heard)


class Heartbeats:
    """Run `run` in the background."""

    def __init__(self, broker: Broker, clock: Clock = SYSTEM_CLOCK, *, expiry: float = EXPIRY_SECONDS) -> None:
        self._broker = broker
        self._clock = clock
        self._expiry = expiry
        self._workers: dict[Function, dict[str, Heartbeat]] = {}
        self._changed: list[Callable[[Function], None]] = []
        self.since = clock.monotonic()
        """The start or the last reconnect: heartbeats before it may have been missed."""
        self._log = structlog.get_logger("heartbeats")

    async def run(self) -> None:
        """Runs until it is cancelled."""
        await self._subscribe()
        connection = reconnects(self._broker)
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            self.prune()
            await self._broker.connected()
            if reconnects(self._broker) != connection:
                connection = reconnects(self._broker)
                self.since = self._clock.monotonic()

    def subscribe(self, changed: Callable[[Function], None]) -> None:
        """Calls `changed` when a worker comes, goes, or says something else than before."""
        self._changed.append(changed)

    def of(self, function: Function) -> dict[str, Heartbeat]:
        """The workers that were heard in the last seconds, by name."""
        limit = self._clock.monotonic() - self._expiry
        return {name: beat for name, beat in self._workers.get(function, {}).items() if beat.heard > limit}

    def functions(self) -> list[Function]:
        """The functions with workers."""
        return list(self._workers)

    def is_running(self, function: Function, key: str) -> bool:
        """Whether a worker says that it works on the run with this key."""
        return any(key in beat.said.running for beat in self.of(function).values())

    def forget(self, function: Function, worker: str) -> None:
        """For a worker that is being deleted: its last heartbeat is no longer true."""
        self._workers.get(function, {}).pop(worker, None)

    def prune(self) -> None:
        """Forgets workers that were not heard for long."""
        limit = self._clock.monotonic() - self._expiry
        for function, workers in list(self._workers.items()):
            for name in [name for name, beat in workers.items() if beat.heard <= limit]:
                del workers[name]
                self._tell(function)
            if not workers:
                del self._workers[function]

    async def _subscribe(self) -> None:
        while True:
            await self._broker.connected()
            try:
                await self._broker.nats.subscribe(ALL_WORKERS, cb=self._received)
            except (Error, OSError) as error:
                self._log.info("cannot subscribe yet", problem=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.since = self._clock.monotonic()
                return

    async def _received(self, message: Msg) -> None:
        try:
            said = msgspec.json.decode(message.data, type=WorkerHeartbeat)
        except msgspec.MsgspecError:
            return
        # The subject counts, not the body: the broker lets a worker publish only under its own function.
        match message.subject.split("."):
            case ["wrk", namespace, name, worker]:
                self.note(Function(namespace, name), worker, said)

    def note(self, function: Function, worker: str, said: WorkerHeartbeat) -> None:
        workers = self._workers.setdefault(function, {})
        before = workers.get(worker)
        workers[worker] = Heartbeat(said, self._clock.monotonic())
        if before is None or _news(before.said) != _news(said):
            self._tell(function)

    def _tell(self, function: Function) -> None:
        for changed in self._changed:
            changed(function)


def _news(said: WorkerHeartbeat) -> tuple[object, ...]:
    """What needs a decision at once. Whether a ready worker is busy matters only over time."""
    is_drained = said.state == "draining" and not said.running and said.idleSince is not None
    return said.state, said.problem, is_drained
