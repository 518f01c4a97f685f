"""The activator on an API in memory and a real broker, with a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from equipment.builders import Builder, a_function
from equipment.clock import FakeClock
from equipment.memory_api import Document, MemoryApi
from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.activator.credentials import Signer
from gpu_runtime.activator.registration import Activator, add_functions
from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.config.activator import ActivatorSettings
from gpu_runtime.kube import Manager, Recorder, Resource, Result
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import RESULTS
from gpu_runtime.serverless.messages import (
    DEADLINE,
    InvocationMessage,
    ResultMessage,
    WorkerHeartbeat,
    WorkerState,
    encode,
)
from gpu_runtime.serverless.subjects import Function, Priority, Run

T = TypeVar("T", bound=Object)
NAMESPACE = "runtime-instance"
KEY = Key(NAMESPACE, "echo")
ECHO = Function(*KEY)
SETTINGS = ActivatorSettings()


def function(**spec: Any) -> Builder:
    """A function that needs no GPU."""
    unit = {"specName": "cpu.small", "image": "echo:1", "memory": "256Mi"}
    wanted = {"unit": unit, "maxWorkers": 3, "idleTimeoutSeconds": 30, **spec}
    return a_function("echo").with_uid("echo-uid").spec(**wanted)


class Api(MemoryApi):
    """Gives each object that is created again another UID, as a server does."""

    created = 0

    async def create(self, resource: Resource[T], obj: Object) -> T:
        made = await super().create(resource, obj)
        self.created += 1
        document = self.objects[resource.kind, made.metadata.key]
        document["metadata"]["uid"] = f"uid-{self.created}-of-{made.metadata.name}"
        return msgspec.convert(document, resource.struct)


class World:
    """One activator. Several of them may share an API: then each has caches of its own."""

    def __init__(self, api: Api, broker: Broker, clock: FakeClock, signer: Signer | None = None) -> None:
        client: Any = api
        self.api, self.broker, self.clock = api, broker, clock
        self.recorder = Recorder(client, "activator", "test", clock=clock)
        self.manager = Manager(client, recorder=self.recorder)
        self.activator: Activator = add_functions(
            self.manager, broker, SETTINGS, signer=signer, recorder=self.recorder, clock=clock
        )

    async def reconcile(self, key: Key = KEY, *, fresh: bool = True) -> Result:
        """One reconcile; with `fresh` caches that show everything."""
        if fresh:
            self.api.fill(self.manager)
        return await self.activator.controller._reconcile(key)

    async def settle(self, key: Key = KEY) -> Result:
        """Reconciles until nothing is written any more."""
        for _ in range(10):
            before = self.api.changes
            result = await self.reconcile(key)
            if self.api.changes == before:
                return result
        raise AssertionError(f"it does not come to rest: {self.api.writes[-10:]}")

    async def swept(self) -> list[Key]:
        """The functions that a sweep reconciles."""
        queue, found = self.activator.controller.queue, []
        await self.activator.sweep()
        while len(queue) and (key := await queue.get()) is not None:
            queue.done(key)
            found.append(key)
        return found

    async def accept(
        self, name: str, *, function: Function = ECHO, priority: Priority = "normal", seconds: float = 3600.0
    ) -> Run:
        """An accepted invocation, which the activator has seen."""
        run, now = Run(function, name, 1), self.clock.now()
        message = InvocationMessage(
            invocationID=name,
            serverlessRequestID=function.name,
            namespace=function.namespace,
            mode="sync",
            deadline=now + timedelta(seconds=seconds),
            acceptedAt=now,
        )
        headers = {DEADLINE: str(int(message.deadline.timestamp() * 1000))}
        subject = subjects.accepted(run, priority)
        assert await publish_once(self.broker, subject, encode(message), headers=headers) is not None
        await eventually(lambda: self.activator.backlog.find(run), what=f"{run} is seen")
        return run

    async def end(self, run: Run) -> None:
        """The run ends at a worker, and the activator sees it."""
        assert await publish_once(self.broker, subjects.ended(run), b"{}") is not None
        await eventually(lambda: self.activator.backlog.find(run) is None, what=f"the end of {run} is seen")

    async def ending(self, run: Run) -> ResultMessage | None:
        stored = await last(self.broker, RESULTS, subjects.ended(run))
        return msgspec.json.decode(stored.data, type=ResultMessage) if stored is not None else None

    def beat(
        self, slot: int, state: WorkerState = "ready", *, running: int = 0, idle: float = 0.0, is_open: bool = False
    ) -> None:
        """A heartbeat of a worker. `idle`: for how long it has had no work; `is_open`: more may still come."""
        now = self.clock.now().timestamp()
        said = WorkerHeartbeat(
            namespace=NAMESPACE,
            function="echo",
            workerName=f"fn-echo-{slot}",
            state=state,
            running=[f"run-{number}.1" for number in range(running)],
            idleSince=None if running or is_open else now - idle,
            sentAt=now,
        )
        self.activator.heartbeats.note(ECHO, f"fn-echo-{slot}", said)

    def unit(self, slot: int) -> Document | None:
        return self.api.find("GPUUnit", f"fn-echo-{slot}")

    @property
    def slots(self) -> list[int]:
        """The slots of the workers that exist."""
        found = [document["metadata"]["name"] for document in self.api.of_kind("GPUUnit")]
        return sorted(int(name.removeprefix("fn-echo-")) for name in found if name.startswith("fn-echo-"))

    def report(self, slot: int, phase: str = "Ready", message: str = "its pod runs") -> None:
        """The unit's controller reports on the worker's unit."""
        unit = self.unit(slot)
        assert unit is not None
        builder = Builder(unit).status(phase=phase, observedGeneration=unit["metadata"]["generation"])
        status = "True" if phase == "Ready" else "False"
        self.api._store(builder.condition("Ready", status, f"Unit{phase}", message).document())

    def ready(self, *slots: int) -> None:
        """These workers run and take invocations."""
        for slot in slots:
            self.report(slot)
            self.beat(slot)

    @property
    def status(self) -> dict[str, Any]:
        found = self.api.find("GPUFunction", "echo")
        assert found is not None
        status: dict[str, Any] = found.get("status", {})
        return status

    @property
    def condition(self) -> tuple[str, str, str]:
        """Phase, and reason and message of the Ready condition."""
        ready = {each["type"]: each for each in self.status.get("conditions", [])}.get("Ready", {})
        return self.status.get("phase", ""), ready.get("reason", ""), ready.get("message", "")


@asynccontextmanager
async def worlds(
    server: NatsServer,
    *have: Builder,
    count: int = 1,
    signer: Signer | None = None,
    failures: Mapping[str, Exception] | None = None,
) -> AsyncIterator[list[World]]:
    """Activators that share an API and a broker. Their backlogs are complete."""
    clock = FakeClock()
    api = Api(clock, failures)
    for builder in have:
        api.put(builder)
    async with server.connection() as broker:
        made = [World(api, broker, clock, signer) for _ in range(count)]
        tasks = [asyncio.create_task(world.activator.backlog.run()) for world in made]
        try:
            await eventually(lambda: all(world.activator.backlog.loaded for world in made), what="everything is read")
            yield made
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def world(server: NatsServer, *have: Builder, **options: Any) -> AsyncIterator[World]:
    async with worlds(server, *have, **options) as made:
        yield made[0]
