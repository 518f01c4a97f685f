"""Two APIs and two workers, the real ones, on a broker in memory; clients that insist, and kills at any moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

import msgspec
import nats.js.client
import pytest
import structlog

import gpu_runtime.serverless.broker.connection as connection_module
import gpu_runtime.serverless.following as following_module
import gpu_runtime.serverless.results.pulling as pulling_module
import gpu_runtime.serverless.worker.puller as puller_module
import gpu_runtime.serverless.worker.worker as worker_module
from gpu_runtime.activator.ending import Ender
from gpu_runtime.activator.expiry import Expiry
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.worker import WorkerSettings
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.rest.invocations import SubmitInvocation
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.messages import Retry
from gpu_runtime.serverless.results.base import Batch, ResultStore, StoreUnavailable
from gpu_runtime.serverless.results.consuming import consumers
from gpu_runtime.serverless.results.metrics import Metrics
from gpu_runtime.serverless.subjects import PRIORITY_TOKENS, Function, Run
from gpu_runtime.serverless.worker.contract import Answer, Failure, FrameworkRequest
from gpu_runtime.serverless.worker.worker import Worker
from gpu_runtime.service.invocations.functions import Functions, Policy
from gpu_runtime.service.invocations.serverless import Serverless, ServerlessParts, build_serverless
from gpu_runtime.service.invocations.submission import Payload, Submission
from gpu_runtime.service.platform import Platform
from unit.serverless.exploration.judge import MAX_ATTEMPTS, Judge
from unit.serverless.exploration.network import CURRENT, MemoryClient, Network, Node, Weather
from unit.serverless.exploration.virtual_time import VirtualClock, play

FUNCTION = Function("runtime-instance", "echo")
ACK_WAIT = 30.0
UNKNOWN = "may have been accepted"
SERVERS = NatsSettings(url="nats://memory:4222")
PROCESSES = ("api-0", "api-1", "worker-0", "worker-1", "activator-0", "store-0")
BOUND = 900.0
"""Seconds after the last disturbance in which everything must have ended."""


class OneFunction(Functions):
    """A function that is always there."""

    def __init__(self) -> None:
        self.policy = Policy(Retry(maxAttempts=MAX_ATTEMPTS, backoffSeconds=(1, 5)), run_seconds=600)

    async def require(self, function: Function) -> Policy:
        return self.policy

    def blocked(self, function: Function) -> None:
        return None


class Script(msgspec.Struct, frozen=True):
    """The payload: what the framework does with it."""

    seconds: float
    failures: int
    kills: bool = False
    """Whether each call ends the process of the worker."""


class ScriptedFramework:
    """The user's framework, without a socket. It does what the payload says."""

    def __init__(self, *_: Any) -> None:
        self._scene: Scene = CURRENT.get().scene
        self._worker = CURRENT.get().name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def health(self) -> str:
        return ""

    async def invoke(self, request: bytes, seconds: float, emit: Any) -> Answer | Failure:
        asked = msgspec.json.decode(request, type=FrameworkRequest)
        script = msgspec.json.decode(bytes(asked.payload), type=Script)  # type: ignore[arg-type]
        # The request does not name the run. The subject of its output does.
        run = subjects.parse_ended(emit.__self__._subject.replace("out.", "res.", 1))
        self._scene.judge.runs(run, asked.attempt, self._worker)
        if script.kills:
            self._scene.crash(self._worker)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(script.seconds)
        except TimeoutError:
            self._scene.judge.failed(run, self._worker)
            return Failure("framework_timeout", "too slow")
        if asked.attempt <= script.failures:
            self._scene.judge.failed(run, self._worker)
            return Failure("framework_error", "as the payload says")
        return Answer(body=msgspec.json.encode({"attempt": asked.attempt}))


class Database:
    """The rows of the result store. A write may fail, or be done without an answer."""

    def __init__(self, rng: Random) -> None:
        self.ends: dict[Run, str] = {}
        self.rng = rng
        self.trouble = 0.1

    async def save(self, batch: Batch) -> None:
        await asyncio.sleep(0.01)
        if self.rng.random() < self.trouble:
            raise StoreUnavailable("before")
        for end in batch.ends:
            self.ends.setdefault(end.message.of, end.message.state)
        await asyncio.sleep(0.01)
        if self.rng.random() < self.trouble:
            raise StoreUnavailable("after")


class Api:
    """One replica of the API."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name = scene, name
        self.node = scene.node(name)
        self._up = asyncio.Event()
        self.serverless: Serverless

    async def run(self) -> None:
        async with Broker(SERVERS, self.name) as broker:
            await broker.connected()
            parts = ServerlessParts(broker, None)
            clock = VirtualClock(asyncio.get_running_loop())
            self.serverless = build_serverless(parts, Platform(), OneFunction(), clock)
            self._up.set()
            await asyncio.Event().wait()

    async def call(self, work: Callable[[Serverless], Awaitable[Any]]) -> Any:
        """The answer to a request; ConnectionError when the replica dies before."""

        async def serve() -> Any:
            await self._up.wait()
            return await work(self.serverless)

        if self.node.dead:
            raise ConnectionError(f"{self.name} is gone")
        task = self.node.begin(serve())
        try:
            return await task
        except asyncio.CancelledError as error:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            raise ConnectionError(f"{self.name} is gone") from error


class Scene:
    """One life of some invocations. What happens follows from the seed alone."""

    def __init__(self, seed: int, lost: float | None = None) -> None:
        self.rng = Random(seed)
        self.crashes = 0
        quiet = lost is None and self.rng.choice((True, False, False))
        slow = 0.0 if quiet else self.rng.choice((0.0, 0.003))
        lost = 0.0 if quiet else lost or self.rng.choice((0.0, 0.01, 0.05))
        self.network = Network(self.rng, Weather(lost, slow))
        self.kills = 0 if quiet else self.rng.randint(0, 5)
        broker = self.network.broker
        for name, pattern in (("INVOCATIONS", "inv.>"), ("RESULTS", "res.>"), ("BODIES", "body.>")):
            broker.add_stream(name, pattern)
        for priority in PRIORITY_TOKENS:
            name, pattern = subjects.consumer(FUNCTION, priority), subjects.consumer_filter(FUNCTION, priority)
            broker.add_consumer("INVOCATIONS", name, pattern, ACK_WAIT)
        self.judge = Judge(broker, lambda: self.crashes + self.network.lost)
        self.has_capacity = self.rng.random() < 0.85
        self.gone = False
        """Whether there are no workers any more, for good."""
        self._crashes: set[asyncio.Future[None]] = set()
        self.apis: list[Api] = []
        self.database = Database(self.rng)
        self.processes: dict[str, Node] = {}

    def node(self, name: str) -> Node:
        made = self.processes[name] = Node(self.network, name, self)
        return made

    # Processes.

    def start_api(self, number: int) -> None:
        api = Api(self, f"api-{number}")
        self.apis[number : number + 1] = [api]
        api.node.start(api.run())

    def start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        settings = WorkerSettings(
            nats=SERVERS,
            namespace=FUNCTION.namespace,
            function=FUNCTION.name,
            name=name,
            concurrency=2,
            ackWaitSeconds=ACK_WAIT,
            heartbeatSeconds=60,
            pullSeconds=20,
        )

        async def run() -> None:
            await Worker(settings, VirtualClock(asyncio.get_running_loop())).run(asyncio.Event())

        self.node(name).start(run())

    def start_activator(self, number: int) -> None:
        """What the activator does to invocations: it ends late ones that nobody takes."""
        name = f"activator-{number}"

        async def run() -> None:
            clock = VirtualClock(asyncio.get_running_loop())
            async with Broker(SERVERS, name) as broker, asyncio.TaskGroup() as group:
                backlog, heartbeats = Backlog(broker, clock), Heartbeats(broker, clock)
                ender = Ender(broker, backlog, clock)
                for each in (backlog, heartbeats, Expiry(backlog, heartbeats, ender, clock, lambda: True)):
                    group.create_task(each.run())

        self.node(name).start(run())

    def start_store(self, number: int) -> None:
        name = f"store-{number}"

        async def run() -> None:
            async with Broker(SERVERS, name) as broker, asyncio.TaskGroup() as group:
                for each in consumers(cast("ResultStore", self.database), broker, Metrics(), 30):
                    group.create_task(each.run())

        self.node(name).start(run())

    async def disturb(self) -> None:
        """Kills a process, and starts it again a while later."""
        for _ in range(self.kills):
            await asyncio.sleep(self.rng.choice((0.005, 0.02, 0.1, 1, 20)))
            await self.kill(self.rng.choice(PROCESSES))
        if not self.has_capacity:
            self.gone = True
            for name in PROCESSES:
                if name.startswith("worker"):
                    await self.processes[name].kill()

    def crash(self, name: str) -> None:
        """Kills a process from inside."""
        self._crashes.add(task := asyncio.ensure_future(self.kill(name)))
        task.add_done_callback(self._crashes.discard)

    async def kill(self, name: str) -> None:
        node = self.processes[name]
        if node.dead:
            return
        self.judge.say(f"{name} is killed")
        self.crashes += 1
        await node.kill()
        await asyncio.sleep(self.rng.choice((0.0, 0.1, 40)))
        if not (self.gone and name.startswith("worker")):
            self.start(name)

    def start(self, name: str) -> None:
        kind, _, number = name.partition("-")
        starts = {
            "api": self.start_api,
            "worker": self.start_worker,
            "activator": self.start_activator,
            "store": self.start_store,
        }
        starts[kind](int(number))

    # Clients.

    async def client(self, number: int) -> None:
        """Submits one id until it knows; sometimes twice at once, through both replicas."""
        await asyncio.sleep(self.rng.choice((0.0, 0.01, 1.0)))
        script = Script(
            self.rng.choice((0.0, 0.05, 3.0, 100.0)),
            self.rng.choice((0, 0, 0, 1, 2, 9)),
            kills=self.kills > 0 and self.rng.random() < 0.1,
        )
        seconds = self.rng.choice((None, None, 20, 600) if self.has_capacity else (20, 600))
        wanted: dict[str, Any] = {"invocationID": f"i-{number}", "priority": self.rng.choice(("normal", "high"))}
        if seconds is not None:
            wanted["timeoutSeconds"] = seconds
        twice = self.rng.random() < 0.3
        others = [{**wanted, "priority": "high"}] if twice and self.rng.random() < 0.5 else [wanted] * twice
        await asyncio.gather(*(self.insist(script, each, unsure=twice) for each in (wanted, *others)))
        if self.rng.random() < 0.25:
            await self.cancel(wanted["invocationID"])
        if self.rng.random() < 0.5:
            await asyncio.gather(*(self.redrive(wanted["invocationID"]) for _ in range(self.rng.randint(1, 2))))

    async def cancel(self, invocation_id: str) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.02, 1, 50)))

        async def work(each: Serverless) -> str:
            found = await each.invocations.find(invocation_id, FUNCTION.name, None)
            return str((await each.changes.cancel(found)).end)

        await self.ask("cancel", work)

    async def redrive(self, invocation_id: str) -> None:
        """Now and then somebody asks for another run, whatever became of the first."""

        async def work(each: Serverless) -> str:
            found = await each.invocations.find(invocation_id, FUNCTION.name, None)
            return str((await each.changes.retry(found, 1)).found.run)

        for _ in range(3):
            await asyncio.sleep(self.rng.choice((0.01, 5, 60, 300)))
            await self.ask("retry", work)

    async def ask(self, what: str, work: Callable[[Serverless], Awaitable[str]]) -> None:
        try:
            self.judge.say(f"client: {what}: {await self.rng.choice(self.apis).call(work)}")
        except (ServiceError, ConnectionError) as error:
            self.judge.say(f"client: {what}: {error}")

    async def insist(self, script: Script, wanted: dict[str, Any], *, unsure: bool) -> None:
        """`unsure`: whether the id may have been accepted for somebody else."""
        run = Run(FUNCTION, wanted["invocationID"], 1)
        for _ in range(50):
            api = self.rng.choice(self.apis)
            try:
                accepted = await api.call(lambda each: each.invocations.accept(submission(script, wanted)))
            except (ServiceError, ConnectionError) as error:
                self.judge.say(f"client: {run} {type(error).__name__} {error}")
                if "used for another" in str(error):
                    return
                unsure = unsure or UNKNOWN in str(error) or isinstance(error, ConnectionError)
                if not unsure:
                    self.judge.refused(run, str(error))
            else:
                self.judge.accepted(run, "duplicate" if accepted.duplicate else "new")
                return
            await asyncio.sleep(self.rng.choice((0.0, 1.0, 10.0)))

    # The play.

    async def live(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: self.judge.wrong(f"defect: {about}"))
        for name in PROCESSES:
            self.start(name)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.disturb())
            for number in range(self.rng.randint(1, 4)):
                group.create_task(self.client(number))
        self.network.weather.lost = self.network.weather.slow = 0.0
        limit = asyncio.get_running_loop().time() + BOUND
        while (left := self.judge.unfinished(self.database.ends, workers=self.has_capacity)) and not self.judge.problem:
            if asyncio.get_running_loop().time() > limit:
                self.judge.wrong(f"stuck: {left}")
            await asyncio.sleep(5)
        for task in self._crashes:
            task.cancel()
        for node in list(self.processes.values()):
            await node.kill()
        self.judge.compare(self.database.ends)
        self.judge.check()


def submission(script: Script, wanted: dict[str, Any]) -> Submission:
    value = msgspec.to_builtins(script)
    sent = {"serverlessRequestID": FUNCTION.name, **wanted, "payload": value}
    request = msgspec.convert(sent, SubmitInvocation)
    payload = Payload(msgspec.json.encode(value), value=value)
    return Submission.of(request, sent, payload, namespace=FUNCTION.namespace)


def play_scene(seed: int, lost: float | None = None) -> Judge:
    """Plays one life. Violation if the protocol broke. `lost` is the share of messages that never arrive."""
    structlog.configure(processors=[_drop])
    random.seed(seed)  # of back-offs with jitter
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection_module, "ReconnectingClient", MemoryClient)
        patch.setattr(worker_module, "Framework", ScriptedFramework)

        async def live() -> Judge:
            time = SimpleNamespace(monotonic=asyncio.get_running_loop().time)
            patch.setattr(nats.js.client, "time", time)
            for module in (puller_module, following_module, pulling_module):
                patch.setattr(module, "time", time)
            scene = Scene(seed, lost)
            await scene.live()
            return scene.judge

        return play(live())


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent
