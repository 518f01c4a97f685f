"""The worker as a whole: what it holds, whether it is ready, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import structlog
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry, Counter, Gauge

from gpu_runtime.config.worker import WorkerSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.messages import WorkerHeartbeat
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.serverless.worker import control
from gpu_runtime.serverless.worker.delivery import Delivery, refuse
from gpu_runtime.serverless.worker.ending import Ends
from gpu_runtime.serverless.worker.framework import Framework
from gpu_runtime.serverless.worker.heartbeats import HeartbeatSender
from gpu_runtime.serverless.worker.invocation import Invocation, Tools
from gpu_runtime.serverless.worker.output import Outputs
from gpu_runtime.serverless.worker.puller import Puller
from gpu_runtime.serverless.worker.readiness import Readiness
from gpu_runtime.serverless.worker.slots import Slots

HAND_BACK_SECONDS = 2.0
"""Runs are handed back this long before the grace period ends."""
MOST_IN_PROGRESS_SECONDS = 3.0
"""At most this long between two reports of progress: the activator may give the consumers a shorter ack wait."""


class Worker:
    """Runs the invocations of one function until it is told to stop."""

    def __init__(self, settings: WorkerSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        for name in ("namespace", "function", "name"):
            if not getattr(settings, name):
                raise ConfigError(f"{name}: is required")
        if not settings.nats.servers:
            raise ConfigError("nats.url: is required")
        self._settings, self._clock = settings, clock
        self._function = Function(settings.namespace, settings.function)
        self._held: dict[str, Invocation] = {}
        """Invocations by the key of their run, until the broker is told what became of them."""
        self._open: dict[Invocation, asyncio.Task[None]] = {}
        """Invocations whose delivery is not answered yet."""
        self._draining = False
        self._over = False
        self._idle_since = clock.now().timestamp()
        self._change = asyncio.Event()
        self._log = structlog.get_logger("worker")
        self._broker = Broker(settings.nats, f"worker {settings.namespace}/{settings.name}")
        self._framework = Framework(settings.framework, settings.maxResultBytes)
        self._readiness = Readiness(self._framework, busy=lambda: bool(self._open), changed=self._changed)
        self._ends = Ends(self._broker, self._changed)
        self._outputs = Outputs(self._broker)
        self._puller = Puller(
            self._broker, self._function, settings.pullSeconds, self._wants_more, self._take, self._changed
        )
        self._heartbeats = HeartbeatSender(
            self._broker,
            subjects.heartbeat(self._function, settings.name),
            settings.heartbeatSeconds,
            self._heartbeat,
        )
        self.metrics = CollectorRegistry()
        self._tools = self._make_tools()
        self._runs: asyncio.TaskGroup | None = None

    def checks(self) -> Mapping[str, str | None]:
        """Ready means: the worker takes invocations."""
        return {"broker": self._broker.problem or None, "framework": self._readiness.problem or None}

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop`; then finishes what it holds, or hands it back before the grace period ends."""
        async with self._broker, self._framework, asyncio.TaskGroup() as group:
            background = [
                group.create_task(each)
                for each in (
                    self._readiness.run(),
                    self._puller.run(),
                    self._heartbeats.run(),
                    self._outputs.run(),
                    control.listen(
                        self._broker,
                        self._function,
                        self._settings.name,
                        drain=self.drain,
                        cancelled=self._cancelled,
                    ),
                    self._watch_connection(),
                )
            ]
            async with asyncio.TaskGroup() as self._runs:
                await stop.wait()
                await self._finish()
            self._over = True
            self._changed()
            await self._heartbeats.send()
            for task in background:
                task.cancel()

    def drain(self) -> None:
        """Takes no more invocations, and finishes those that it holds."""
        if not self._draining:
            self._log.info("draining: no more invocations are taken", running=sorted(self._held))
            self._draining = True
            self._changed()

    async def drained(self) -> None:
        """Returns when the worker drains, holds nothing, and nothing can come any more; or when it ends."""
        while not (self._over or (self._draining and not self._open and not self._puller.waiting)):
            await self._wait_for_change()

    async def _finish(self) -> None:
        self.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(self._settings.graceSeconds - HAND_BACK_SECONDS, 0)):
                await self.drained()
                return
        for invocation in list(self._open):
            invocation.hand_back()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_SECONDS * 0.75):
                while self._open:
                    await self._wait_for_change()
        for task in self._open.values():  # the broker does not answer: what is left comes again after the ack wait
            task.cancel()

    def _make_tools(self) -> Tools:
        outcomes = Counter("worker_invocations", "What became of tries.", ["outcome"], registry=self.metrics)
        running = Gauge("worker_invocations_held", "Invocations that the worker holds.", registry=self.metrics)
        running.set_function(lambda: len(self._open))
        return Tools(
            worker=self._settings.name,
            broker=self._broker,
            framework=self._framework,
            readiness=self._readiness,
            slots=Slots(self._settings.concurrency),
            ends=self._ends,
            outputs=self._outputs,
            clock=self._clock,
            in_progress_seconds=min(self._settings.ackWaitSeconds / 3, MOST_IN_PROGRESS_SECONDS),
            look_seconds=self._settings.ackWaitSeconds / 3,
            count=lambda outcome: outcomes.labels(outcome).inc(),
        )

    def _take(self, message: Msg) -> None:
        """Holds a delivered message. A second delivery of a run that is held is not a second run."""
        if self._runs is None or self._over:
            return
        try:
            delivery = Delivery(self._broker, message)
        except ValueError:
            self._runs.create_task(refuse(message))
            return
        held = self._held.get(delivery.run.key)
        if held is not None:
            held.delivery.redelivered(message)
            return
        invocation = Invocation(delivery, self._tools, decided=self._decided)
        self._held[invocation.key] = invocation
        self._open[invocation] = self._runs.create_task(self._process(invocation))
        self._changed()

    def _decided(self, invocation: Invocation) -> None:
        """From now on a delivery of the run is a new one: the broker may send it before it confirms a hand-back."""
        if self._held.get(invocation.key) is invocation:
            del self._held[invocation.key]

    async def _process(self, invocation: Invocation) -> None:
        try:
            await invocation.process()
        except Exception:
            # A defect must not end the other runs. The broker delivers this one again, up to its limit of attempts.
            self._log.exception("defect", run=str(invocation.delivery.run))
        finally:
            self._decided(invocation)
            self._open.pop(invocation, None)
            self._idle_since = self._clock.now().timestamp()
            self._changed()

    async def _watch_connection(self) -> None:
        await self._broker.lost.wait()
        raise ConfigError("the broker has closed the connection for good: are the credentials still valid?")

    def _changed(self) -> None:
        self._puller.wake()
        self._heartbeats.changed()
        self._change.set()
        self._change = asyncio.Event()

    async def _wait_for_change(self) -> None:
        await self._change.wait()

    def _wants_more(self) -> bool:
        return not self._draining and not self._readiness.problem and len(self._open) < self._settings.concurrency

    def _cancelled(self, key: str) -> None:
        if (invocation := self._held.get(key)) is not None:
            invocation.look_for_end()

    def _heartbeat(self) -> WorkerHeartbeat:
        problem = self._readiness.problem or self._puller.problem or self._ends.problem
        # A message may still come while a request is open, so a draining worker is not idle before that.
        idle = not self._open and not (self._draining and self._puller.waiting)
        return WorkerHeartbeat(
            namespace=self._function.namespace,
            function=self._function.name,
            workerName=self._settings.name,
            state="draining" if self._draining else "starting" if problem else "ready",
            problem=problem,
            concurrency=self._settings.concurrency,
            running=sorted(self._held),
            idleSince=self._idle_since if idle else None,
            sentAt=self._clock.now().timestamp(),
        )
