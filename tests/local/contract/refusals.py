"""Answers that no generated request can bring about: by hand, once for every operation that documents them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from equipment.waiting import eventually_sync
from realkube.process import free_ports

BASE = "/api/v1"
BODIES: dict[str, dict[str, Any]] = {
    f"{BASE}/operator/stockpools": {"specName": "g1.1", "replicas": 0},
    f"{BASE}/operator/stock-units": {"specName": "g1.1", "replicas": 1},
    f"{BASE}/gpu-units": {"specName": "g1.1", "image": "python:3.12", "name": "refused"},
    f"{BASE}/gpu-units/{{name}}": {"image": "python:3.12"},
    f"{BASE}/gpu-storages": {"name": "refused", "size": "1Gi"},
    f"{BASE}/gpu-storages/{{name}}": {"accessor": {"enabled": True}},
    f"{BASE}/serverless/functions": {"name": "refused", "unit": {"specName": "cpu.small", "image": "python:3.12"}},
    f"{BASE}/serverless/functions/{{name}}": {"maxWorkers": 2},
    f"{BASE}/serverless/invocations": {"serverlessRequestID": "kept"},
    f"{BASE}/serverless/invocations/batch": {"invocations": [{"serverlessRequestID": "kept"}]},
    f"{BASE}/serverless/dead-letters/redrive": {"serverlessRequestID": "kept"},
}
PARAMETERS = {"name": "n-5", "operationID": "op-n-5", "invocationID": "inv-n-5", "deadLetterID": "n-5"}
WITHOUT_OPERATION = ("/serverless/invocations", "/serverless/dead-letters")  # they have ids of their own
HELD = b'{"operationID"'  # the beginning of a body whose rest never comes


@dataclass(frozen=True)
class Process:
    """A runtime-api of its own."""

    port: int

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    @contextmanager
    def busy(self, token: str) -> Iterator[None]:
        """One request stays under way for as long as the block."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest("POST", f"{BASE}/gpu-units")
            for name, value in (
                ("Content-Type", "application/json"),
                ("Content-Length", "999"),
                ("Authorization", f"Bearer {token}"),
            ):
                connection.putheader(name, value)
            connection.endheaders(HELD)
            yield
        finally:
            connection.close()


@contextmanager
def runtime_api(folder: Path, kubeconfig: Path, **settings: Any) -> Iterator[Process]:
    """A runtime-api with these settings, answering."""
    port, health = free_ports(2)
    folder.mkdir()
    config = folder / "runtime-api.yaml"
    config.write_text(yaml.safe_dump({"httpAddr": f"127.0.0.1:{port}", "health": {"port": health}, **settings}))
    command = (sys.executable, "-m", "gpu_runtime.cli", "runtime-api", "--config", str(config))
    with (folder / "log").open("wb") as log:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    api = Process(port)
    try:
        eventually_sync(lambda: _answers(api), within=60, what="the process answers")
        yield api
    finally:
        process.kill()
        process.wait()


def _answers(api: Process) -> bool:
    try:
        return api.ask("GET", f"{BASE}/health")[0] > 0
    except OSError:
        return False


def unreachable(kubeconfig: Path, folder: Path) -> Path:
    """The same cluster at an address where nobody listens."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_ports(1)[0]}"
    away = folder / "unreachable"
    away.write_text(yaml.safe_dump(config))
    return away


def valid(method: str, path: str, number: int = 0) -> tuple[str, Any]:
    """The path and body of a request that only its circumstances can make fail."""
    body = BODIES.get(path) if method in ("POST", "PUT") else None
    if body is not None and method == "POST" and not any(each in path for each in WITHOUT_OPERATION):
        body = {"operationID": f"refused-{number}", **body}
    for parameter, value in PARAMETERS.items():
        path = path.replace(f"{{{parameter}}}", value)
    return path, body
