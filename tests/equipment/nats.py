"""A real broker on loopback, for one test."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from equipment.waiting import eventually
from gpu_runtime.config.nats import NatsSettings, StreamSettings
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker

SMALL_STREAMS = StreamSettings(
    invocationsBytes=64 * 1024**2, resultsBytes=64 * 1024**2, bodiesBytes=64 * 1024**2, bodiesSeconds=3600
)


def nats_server() -> str:
    """The broker's program, which its wheel installs beside the interpreter."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    assert found, "nats-server is not installed beside the interpreter"
    return found


@dataclass
class NatsServer:
    """A broker that can be killed and started again on the same port and data."""

    folder: Path
    port: int
    extra: str = ""
    """Further lines of its configuration."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def settings(self) -> NatsSettings:
        return NatsSettings(url=f"nats://127.0.0.1:{self.port}")

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self.folder / "data"}", sync_interval: always, max_file_store: 4GB }}\n'
            f"{self.extra}\n"
        )
        with (self.folder / "nats.log").open("ab") as log:
            self.process = subprocess.Popen([nats_server(), "-c", str(config)], stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, as when the machine takes it away."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def wait_until_it_answers(self) -> None:
        await eventually(lambda: _answers(self.port), what=f"the broker answers on port {self.port}")

    @asynccontextmanager
    async def connection(self, name: str = "test") -> AsyncIterator[Broker]:
        async with Broker(self.settings, name) as broker:
            async with asyncio.timeout(60):
                await broker.connected()
            yield broker


@asynccontextmanager
async def running_nats(folder: Path, *, extra: str = "", with_streams: bool = True) -> AsyncIterator[NatsServer]:
    """A broker with empty streams of the product."""
    server = NatsServer(folder / "nats", free_port(), extra)
    server.start()
    try:
        await server.wait_until_it_answers()
        if with_streams:
            async with server.connection() as broker:
                assert await streams.ensure(broker, SMALL_STREAMS) == []
        yield server
    finally:
        server.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
