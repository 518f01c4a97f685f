"""What the workers say about themselves: which runs they work on now."""

from __future__ import annotations

import msgspec
from nats.aio.msg import Msg

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import WorkerHeartbeat
from gpu_runtime.serverless.subjects import Function, Run

FRESH_SECONDS = 10.0
"""A worker sends a heartbeat every 2 s. One that is silent for this long is not counted any more."""
SUBJECT = "wrk.*.*.*"


class Heartbeats:
    """The last heartbeat of each worker. Nothing is decided by it: it is shown to people."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seen: dict[Function, dict[str, tuple[float, WorkerHeartbeat]]] = {}

    async def follow(self, broker: Broker) -> None:
        """Subscribes; the client of the broker renews the subscription after each reconnect."""
        await broker.nats.subscribe(SUBJECT, cb=self._received)

    def add(self, heartbeat: WorkerHeartbeat) -> None:
        function = Function(heartbeat.namespace, heartbeat.function)
        workers = self._seen.setdefault(function, {})
        workers[heartbeat.workerName] = (self._clock.monotonic(), heartbeat)
        for name in [name for name, (at, _) in workers.items() if not self._fresh(at)]:
            del workers[name]

    def of(self, function: Function) -> list[WorkerHeartbeat]:
        """The workers of the function that are alive."""
        return [heartbeat for at, heartbeat in self._seen.get(function, {}).values() if self._fresh(at)]

    def running(self, run: Run) -> str | None:
        """The worker that works on the run now."""
        return next((each.workerName for each in self.of(run.function) if run.key in each.running), None)

    def _fresh(self, at: float) -> bool:
        return self._clock.monotonic() - at < FRESH_SECONDS

    async def _received(self, message: Msg) -> None:
        try:
            self.add(msgspec.json.decode(message.data, type=WorkerHeartbeat))
        except msgspec.MsgspecError:
            return  # of another version, or not of a worker: it only means that less can be shown
