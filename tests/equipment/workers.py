"""A worker and a framework for tests: real processes, or the worker in the test's own event loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import aiohttp
import msgspec

from equipment.nats import NatsServer, free_port
from equipment.waiting import eventually
from gpu_runtime.config import Health
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.worker import FrameworkSettings, WorkerSettings
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.messages import (
    Body,
    Cancelled,
    Control,
    InvocationMessage,
    ResultMessage,
    Retry,
    WorkerHeartbeat,
    encode,
)
from gpu_runtime.serverless.subjects import Function, Priority, Run
from gpu_runtime.serverless.worker.worker import Worker

ECHO = Function("runtime-instance", "echo")
ODD_FRAMEWORK = Path(__file__).with_name("odd_framework.py")


class Heard(list[WorkerHeartbeat]):
    """Heartbeats in the order in which they came."""

    @property
    def latest(self) -> WorkerHeartbeat:
        assert self, "no heartbeat yet"
        return self[-1]


@dataclass
class Queue:
    """The queue of one function, as the activator and the API use it."""

    broker: Broker
    function: Function = ECHO

    async def create_consumers(self, ack_wait: float = 30) -> None:
        for priority in get_args(Priority):
            name = subjects.consumer(self.function, priority)
            config = {
                "durable_name": name,
                "filter_subject": subjects.consumer_filter(self.function, priority),
                "ack_policy": "explicit",
                "ack_wait": int(ack_wait * 1e9),
                "max_deliver": -1,
                "deliver_policy": "all",
                "max_ack_pending": -1,
            }
            body = json.dumps({"stream_name": INVOCATIONS, "config": config}).encode()
            answer = await self.broker.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.{name}", body)
            assert "error" not in json.loads(answer.data), answer.data

    async def submit(
        self,
        invocation_id: str,
        payload: Any = None,
        *,
        priority: Priority = "normal",
        seconds: float = 600,
        run: int = 1,
        max_attempts: int = 3,
        backoff: tuple[int, ...] = (),
        run_seconds: int | None = None,
        raw: bytes | None = None,
        content_type: str = "application/json",
    ) -> Run:
        """Accepts an invocation, as the API does."""
        key = Run(self.function, invocation_id, run)
        data = json.dumps(payload).encode() if raw is None else raw
        body: Body = await bodies.store(self.broker, key, data, is_json=content_type == "application/json")
        now = datetime.now(UTC)
        message = InvocationMessage(
            invocationID=invocation_id,
            serverlessRequestID=self.function.name,
            namespace=self.function.namespace,
            run=run,
            contentType=content_type,
            payload=body,
            deadline=now + timedelta(seconds=seconds),
            acceptedAt=now,
            runSeconds=run_seconds,
            retry=Retry(maxAttempts=max_attempts, backoffSeconds=backoff),
        )
        subject = subjects.accepted(key, priority)
        assert await publish_once(self.broker, subject, encode(message), free=subjects.accepted_any(key)) is not None
        return key

    async def end_of(self, run: Run) -> ResultMessage | None:
        stored = await last(self.broker, RESULTS, subjects.ended(run))
        return msgspec.json.decode(stored.data, type=ResultMessage) if stored is not None else None

    async def wait_for_end(self, run: Run, within: float = 60) -> ResultMessage:
        found = await eventually(lambda: self.end_of(run), within=within, what=f"the end of {run}")
        assert found is not None
        return found

    async def body_of(self, result: ResultMessage) -> Any:
        return json.loads(await bodies.load(self.broker, result.of, result.body))

    async def cancel(self, run: Run) -> bool:
        """Cancels a run, as the API does: first its end, then the word to its worker."""
        result = ResultMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            state="cancelled",
            failureClass="cancelled_by_user",
            completedAt=datetime.now(UTC),
        )
        first = await publish_once(self.broker, subjects.ended(run), encode(result)) is not None
        word = Cancelled(invocationID=run.invocation_id, run=run.number)
        await self.broker.nats.publish(subjects.cancelled(run.function), encode(word))
        return first

    async def drain(self, worker: str) -> None:
        await self.broker.nats.publish(subjects.control(self.function, worker), encode(Control()))

    async def unfinished(self) -> tuple[int, int]:
        """How many messages wait at the consumers, and how many are delivered and not acknowledged."""
        waiting = pending = 0
        for priority in get_args(Priority):
            name = subjects.consumer(self.function, priority)
            info = json.loads((await self.broker.request(f"$JS.API.CONSUMER.INFO.{INVOCATIONS}.{name}")).data)
            waiting += info["num_pending"]
            pending += info["num_ack_pending"]
        return waiting, pending

    async def wait_until_acknowledged(self) -> None:
        async def nothing_left() -> bool:
            return await self.unfinished() == (0, 0)

        await eventually(nothing_left, what="every message is acknowledged")

    async def heartbeats(self) -> Heard:
        """A list that grows with each heartbeat of the function's workers."""
        heard = Heard()

        async def hear(message: Any) -> None:
            heard.append(msgspec.json.decode(message.data, type=WorkerHeartbeat))

        await self.broker.nats.subscribe(subjects.heartbeat(self.function, "*"), cb=hear)
        await self.broker.nats.flush()
        return heard


@dataclass
class FrameworkProcess:
    """A framework that runs as a process of its own."""

    command: list[str]
    socket: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                env={**os.environ, "GPU_RUNTIME_FRAMEWORK_SOCKET": str(self.socket)},
            )

    def stop(self, number: signal.Signals = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def has_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    @property
    def output(self) -> str:
        return self.log.read_text()


@contextmanager
def running_framework(folder: Path, command: list[str] | None = None, source: str = "") -> Iterator[FrameworkProcess]:
    """The framework of a handler's source, or of a command; it finds its socket in GPU_RUNTIME_FRAMEWORK_SOCKET."""
    if command is None:
        (folder / "handler.py").write_text(source)
        command = [sys.executable, "-m", "gpu_runtime.serverless.framework", "--source", str(folder / "handler.py")]
    framework = FrameworkProcess(command, folder / "framework.sock", folder / "framework.log")
    framework.start()
    try:
        yield framework
    finally:
        assert framework.process is not None
        framework.process.kill()
        framework.process.wait()


@dataclass
class OddFramework:
    """A framework that does what the payload says. It notes each call in a file before it does anything."""

    process: FrameworkProcess
    calls_file: Path

    @property
    def socket(self) -> Path:
        return self.process.socket

    def release(self) -> None:
        """Ends all calls that sleep, and those to come."""
        self.calls_file.with_name("release").touch()

    def closed(self) -> list[str]:
        """The ids of calls whose connection was closed by the worker."""
        file = self.calls_file.with_name("gone")
        return file.read_text().split() if file.exists() else []

    def set_healthy(self, healthy: bool) -> None:
        file = self.calls_file.with_name("unhealthy")
        if healthy:
            file.unlink()
        else:
            file.touch()

    def calls(self, invocation_id: str | None = None) -> list[str]:
        """The ids of all calls, in order; or only those of one id."""
        calls = self.calls_file.read_text().split() if self.calls_file.exists() else []
        return [call for call in calls if invocation_id in (None, call)]


@contextmanager
def odd_framework(folder: Path) -> Iterator[OddFramework]:
    calls = folder / "calls"
    with running_framework(folder, [sys.executable, str(ODD_FRAMEWORK), str(calls)]) as process:
        yield OddFramework(process, calls)


def worker_settings(
    nats: NatsSettings, socket: Path, *, name: str = "fn-echo-0", port: int = 0, **changes: Any
) -> WorkerSettings:
    usual: dict[str, Any] = {
        "log": {"level": "debug"},
        "health": msgspec.to_builtins(Health(port=port)),
        "nats": msgspec.to_builtins(nats),
        "namespace": ECHO.namespace,
        "function": ECHO.name,
        "name": name,
        "pullSeconds": 0.5,  # an idle worker ends after that
        "framework": msgspec.to_builtins(FrameworkSettings(socketPath=str(socket))),
    }
    return msgspec.convert({**usual, **changes}, WorkerSettings)


@asynccontextmanager
async def running_worker(server: NatsServer | NatsSettings, socket: Path, **changes: Any) -> AsyncIterator[Worker]:
    """A worker in this event loop; it ends as on SIGTERM."""
    stop = asyncio.Event()
    nats = server if isinstance(server, NatsSettings) else server.settings
    worker = Worker(worker_settings(nats, socket, **changes))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()


@dataclass
class WorkerProcess:
    """`gpu-runtime worker` as a process of its own."""

    settings: WorkerSettings
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.settings.name}.log"

    def start(self) -> None:
        config = self.folder / f"{self.settings.name}.json"  # JSON is YAML
        config.write_bytes(msgspec.json.encode(self.settings))
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "gpu_runtime.cli", "worker", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    async def readiness(self) -> tuple[int, Mapping[str, Any]]:
        """The status and body of /readyz; 0 when nobody answers."""
        url = f"http://127.0.0.1:{self.settings.health.port}/readyz"
        with suppress(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return response.status, await response.json()
        return 0, {}

    async def wait_until_ready(self) -> None:
        async def ready() -> bool:
            return (await self.readiness())[0] == 200

        await eventually(ready, what=f"{self.settings.name} is ready")


@contextmanager
def worker_process(server: NatsServer, socket: Path, folder: Path, **changes: Any) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(worker_settings(server.settings, socket, port=free_port(), **changes), folder)
    worker.start()
    try:
        yield worker
    finally:
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
