"""Real NATS clients without a socket: what they send arrives later, in order, and may be lost. Processes may die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.aio.subscription import Subscription

from unit.serverless.exploration.jetstream import JetStream, matches
from unit.serverless.exploration.virtual_time import VirtualClock

T = TypeVar("T")
CURRENT: ContextVar[Node] = ContextVar("node")
"""The process that the running code belongs to."""


@dataclass
class Weather:
    """How often what happens to a message. The real broker loses an answer only with a connection; here it is cheap."""

    lost: float = 0.0
    """Of all requests, those that never arrive; and of all answers, those that never come back."""
    slow: float = 0.0
    """Of all messages, those that wait so long that an AckWait passes. All that follow on the connection wait, too."""
    slow_seconds: float = 45.0


class Network:
    """The broker, and the connections to it."""

    def __init__(self, rng: Random, weather: Weather) -> None:
        self.rng, self.weather = rng, weather
        clock = VirtualClock(asyncio.get_running_loop())
        self.broker = JetStream(clock.now, self._deliver, self._listens)
        self.clients: dict[MemoryClient, None] = {}  # in order: a set would differ from run to run
        self.lost = 0
        """Messages that never arrived, and waits that were longer than an AckWait."""

    def delay(self) -> float:
        if self.rng.random() < self.weather.slow:
            self.lost += 1
            return self.weather.slow_seconds
        return self.rng.choice((0.001, 0.001, 0.003, 0.02))

    def loses(self) -> bool:
        lost = self.rng.random() < self.weather.lost
        self.lost += lost
        return lost

    def arrive(self, subject: str, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        if not self.broker.handle(subject, reply, data, headers):
            self._deliver(subject, reply, data, "".join(f"{name}: {value}\r\n" for name, value in headers.items()))

    def _listens(self, subject: str) -> bool:
        return any(matches(sub._subject, subject) for client in self.clients for sub in client._subs.values())

    def _deliver(self, to: str, reply: str, data: bytes, block: str) -> None:
        inbox, _, subject = to.partition(" ")
        for client in list(self.clients):
            client.receive(inbox, subject or inbox, reply, data, block)


class MemoryClient(Client):
    """A client whose socket is the network in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.node = CURRENT.get()
        self.network = self.node.network
        self._out = self._in = 0.0

    async def connect(self, **options: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(self.network.delay())
        self._inbox_prefix = bytearray(str(options.get("inbox_prefix", "_INBOX")).encode())
        self._error_cb = options["error_cb"]
        self._max_payload = 2**20
        self._status = Client.CONNECTED
        self.network.clients[self] = None
        self.node.clients.append(self)

    async def close(self) -> None:
        self.cut()

    def cut(self) -> None:
        """The connection is gone: nothing arrives any more, in either direction."""
        self._status = Client.CLOSED
        self.network.clients.pop(self, None)
        for sub in list(self._subs.values()):
            sub._stop_processing()
        self._subs.clear()

    async def flush(self, timeout: int = 10) -> None:
        await asyncio.sleep(self.network.delay())

    @property
    def connected_url(self) -> None:
        return None

    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int, headers: dict[str, Any] | None
    ) -> None:
        if self.node.dead or self.network.loses():
            return
        self._out = max(self._out + 1e-9, asyncio.get_running_loop().time() + self.network.delay())
        asyncio.get_running_loop().call_at(
            self._out, self._arrive, subject, reply, bytes(payload), {k: v.strip() for k, v in (headers or {}).items()}
        )

    def _arrive(self, subject: str, reply: str, payload: bytes, headers: Mapping[str, str]) -> None:
        if not self.node.dropped:
            self.network.arrive(subject, reply, payload, headers)

    async def _send_subscribe(self, sub: Subscription) -> None:
        return

    async def _send_unsubscribe(self, sid: int, limit: int = 0) -> None:
        return

    def receive(self, to: str, subject: str, reply: str, data: bytes, block: str) -> None:
        for sid, sub in list(self._subs.items()):
            if matches(sub._subject, to) and not self.network.loses():
                loop = asyncio.get_running_loop()
                self._in = max(self._in + 1e-9, loop.time() + self.network.delay())
                loop.call_at(self._in, self._received, sid, subject, reply, data, block)

    def _received(self, sid: int, subject: str, reply: str, data: bytes, block: str) -> None:
        if not self.node.dead and self._status == Client.CONNECTED:
            raw = (subject.encode(), reply.encode(), data, block.encode())
            self.node.keep(asyncio.ensure_future(self._process_msg(sid, *raw)))


class Node:
    """A process. Its tasks and its connections die together, at any line."""

    def __init__(self, network: Network, name: str, scene: Any = None) -> None:
        self.network, self.name, self.scene = network, name, scene
        self.clients: list[MemoryClient] = []
        self.dead = self.dropped = False
        self._tasks: dict[asyncio.Future[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs a coroutine as part of this process, in the background."""
        _ = self.begin(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        token = CURRENT.set(self)
        try:
            task = asyncio.get_running_loop().create_task(work)
        finally:
            CURRENT.reset(token)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def kill(self) -> None:
        """As SIGKILL: what its code does on the way out reaches nobody. What it had sent may still arrive."""
        self.dead = True
        self.dropped = self.network.rng.random() < 0.5
        for client in self.clients:
            client.cut()
        left = [each for each in self._tasks if each is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
