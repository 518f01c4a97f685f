"""An embedded API server in a process of its own, and a client for raw requests."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from equipment.upkeep import upkeep
from equipment.waiting import eventually

PATIENCE = 60


class Server:
    """The server's process on one data directory."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str, port: int = 0) -> str:
        """The line that says it is ready."""
        command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", str(self.data), *options]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return status

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"


@dataclass
class Answer:
    code: int
    body: Any
    headers: Any


class Api:
    """Raw requests with the administrator's token."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        stream = io.BytesIO(content) if content else None
        async with self.session.request(method, path, data=stream, headers=sent) as answer:
            text = await answer.read()
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = text.decode()
            return Answer(answer.status, parsed, answer.headers)

    async def events(self, path: str, count: int) -> list[Any]:
        """The first events of a watch."""
        found: list[Any] = []
        async with asyncio.timeout(PATIENCE), self.session.get(path) as answer:
            async for line in answer.content:
                found.append(json.loads(line))
                if len(found) == count:
                    break
        return found


def session_of(kubeconfig: Path, *, token: str | None = None) -> aiohttp.ClientSession:
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    given = user["token"] if token is None else token
    headers = {"Authorization": f"Bearer {given}"} if given else {}
    return aiohttp.ClientSession(cluster["server"], headers=headers, connector=aiohttp.TCPConnector(ssl=tls))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that is not started yet."""
    found = Server(tmp_path / "data")
    yield found
    if found.process is not None:
        found.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that leave it as it is."""
    found = Server(tmp_path_factory.mktemp("apiserver") / "data")
    found.start()
    with upkeep(found.kubeconfig):
        yield found
    found.end()


@pytest.fixture
async def api(running: Server) -> AsyncIterator[Api]:
    async with session_of(running.kubeconfig) as session:
        yield Api(session)


@pytest.fixture
async def namespace(api: Api) -> str:
    name = f"t-{time.monotonic_ns():x}-{os.getpid()}"
    assert (await api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})).code == 201

    async def furnished() -> bool:
        return (await api("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")).code == 200

    await eventually(furnished, what="pods can be made in the namespace")
    return name
