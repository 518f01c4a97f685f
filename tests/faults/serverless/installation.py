"""Everything that an invocation passes through, as real processes that can be killed and started again."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import yaml

from equipment.nats import free_port
from equipment.waiting import eventually
from realkube.errors import RealKubeError
from realkube.process import Process

FUNCTION, NAMESPACE = "life", "runtime-instance"
ACK_WAIT_SECONDS = 4.0
WORKERS = 3
CONCURRENCY = 4
MAX_ATTEMPTS = 50
HANDLER = """
import os, time

log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def main(payload, call):
    os.write(log, f"{{call.invocation_id}} {{call.attempt}}\\n".encode())
    time.sleep(payload["seconds"])
    if "exits_without" in payload and not os.path.exists(payload["exits_without"]):
        os._exit(3)
    if call.attempt <= payload.get("failures", 0):
        raise RuntimeError("as the payload says")
    return {{"id": call.invocation_id, "attempt": call.attempt}}
"""


class Victim(Protocol):
    """Something that can be killed and started again."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


@dataclass
class Program:
    """One process of ours with its settings in a file."""

    name: str
    command: list[str]
    folder: Path
    process: Process | None = field(default=None, repr=False)
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        self.process = Process(self.name, self.command, self.folder / f"{self.name}.{self.starts}.log")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def start_again_if_it_ended(self) -> None:
        """As a kubelet does."""
        try:
            if self.process is not None:
                self.process.require_alive()
        except RealKubeError:
            self.start()


class Worker:
    """A worker with its framework. They die together, as the two containers of a pod that loses its machine."""

    def __init__(self, worker: Program, framework: Program) -> None:
        self.programs = (framework, worker)

    def start(self) -> None:
        for program in self.programs:
            program.start()

    def kill(self) -> None:
        for program in self.programs:
            program.kill()


@dataclass
class Installation:
    """The processes by name, and what they leave."""

    folder: Path
    kubeconfig: Path
    nats: dict[str, Any]
    results: dict[str, Any]
    victims: dict[str, Victim]
    """At first those that others start and stop, such as the broker."""
    replicas: int = 1
    ack_wait_seconds: float = ACK_WAIT_SECONDS
    max_attempts: int = MAX_ATTEMPTS
    apis: list[str] = field(default_factory=list)

    @property
    def executions(self) -> Path:
        """A line for each call of the function: the id and the attempt."""
        return self.folder / "executions"

    def build(self) -> None:
        (self.folder / "handler.py").write_text(HANDLER.format(log=str(self.executions)))
        self.executions.touch()
        streams = {"invocationsBytes": 2**28, "resultsBytes": 2**28, "bodiesBytes": 2**26, "replicas": self.replicas}
        for number in range(2):
            port = free_port()
            self.apis.append(f"http://127.0.0.1:{port}/api/v1")
            more = {"httpAddr": f"127.0.0.1:{port}", "results": self.results, "streams": streams, "drainSeconds": 1}
            self._add(f"runtime-api-{number}", "runtime-api", more, kubernetes=True)
        timing = {"ackWaitSeconds": self.ack_wait_seconds}
        self._add("activator", "activator", {"leaderElection": {"enabled": False}, **timing}, kubernetes=True)
        self._add("result-store", "result-store", {"results": self.results, "ackWaitSeconds": 5})
        for number in range(WORKERS):
            self._add_worker(number)

    def _add_worker(self, number: int) -> None:
        name, socket = f"fn-{FUNCTION}-{number}", self.folder / f"{number}.sock"
        arguments = ["--source", str(self.folder / "handler.py"), "--socket", str(socket)]
        framework = Program(
            f"framework-{number}",
            [sys.executable, "-m", "gpu_runtime.serverless.framework", *arguments],
            self.folder,
        )
        settings = {
            "namespace": NAMESPACE,
            "function": FUNCTION,
            "name": name,
            "concurrency": CONCURRENCY,
            "ackWaitSeconds": self.ack_wait_seconds,
            "framework": {"socketPath": str(socket)},
        }
        self.victims[f"worker-{number}"] = Worker(self._program(f"worker-{number}", "worker", settings), framework)

    def _add(self, name: str, process: str, settings: dict[str, Any], *, kubernetes: bool = False) -> None:
        self.victims[name] = self._program(name, process, settings, kubernetes=kubernetes)

    def _program(self, name: str, process: str, settings: dict[str, Any], *, kubernetes: bool = False) -> Program:
        file = self.folder / f"{name}.yaml"
        health = {"host": "127.0.0.1", "port": free_port()}
        file.write_text(yaml.safe_dump({"health": health, "nats": self.nats, **settings}))
        command = [sys.executable, "-m", "gpu_runtime.cli", process, "--config", str(file)]
        return Program(name, command + (["--kubeconfig", str(self.kubeconfig)] if kubernetes else []), self.folder)


@asynccontextmanager
async def running(installation: Installation, session: aiohttp.ClientSession) -> AsyncIterator[Installation]:
    """All processes, and the function that the invocations are for."""
    own = dict(installation.victims)
    installation.build()
    ours = {name: victim for name, victim in installation.victims.items() if name not in own}
    try:
        for victim in ours.values():
            victim.start()
        await eventually(lambda: _create_function(session, installation), what="the function is created")
        yield installation
    finally:
        for victim in ours.values():
            victim.kill()


async def _create_function(session: aiohttp.ClientSession, installation: Installation) -> bool:
    body = {
        "operationID": "life",
        "name": FUNCTION,
        "namespace": NAMESPACE,
        "unit": {"specName": "cpu.small", "image": "python:3.12"},
        "concurrency": CONCURRENCY,
        # The units of this installation never run: no node is there. The workers are started by the test instead.
        "minWorkers": WORKERS,
        "maxWorkers": WORKERS,
        "invocationTimeoutSeconds": 600,
        "retry": {"maxAttempts": installation.max_attempts, "backoffSeconds": [1]},
    }
    try:
        async with session.post(f"{installation.apis[0]}/serverless/functions", json=body) as response:
            answer = await response.text()
            assert response.status in (200, 201, 202), answer
            return True
    except aiohttp.ClientError as error:
        raise AssertionError(str(error)) from error
