"""A volume, secrets beside it, and a server of its files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.edge.runner import Runner
from gpu_runtime.files.handler import refusal
from gpu_runtime.files.serving import application
from gpu_runtime.files.volume import Volume

PREFIX = "/storages/default/data"
SECRET = b"the secret of the machine"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@asynccontextmanager
async def serving(folder: Path, prefix: str = PREFIX, hosts: frozenset[str] | None = None) -> AsyncIterator[int]:
    """The port of a server of the folder."""
    runner = Runner(application(Volume(folder), prefix, hosts), refusal, shutdown_timeout=1)
    await runner.setup()
    try:
        yield await runner.listen("127.0.0.1", 0)
    finally:
        await runner.cleanup()


async def fetch(port: int, target: bytes | str, method: str = "GET", **headers: str) -> Answer:
    """Sends the target as it is: a client library would normalise it."""
    raw = target.encode() if isinstance(target, str) else target
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in {"Host": "localhost", **headers}.items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        # HTTP/1.0: the body is what comes until the end of the connection, without chunks.
        writer.write(method.encode() + b" " + raw + b" HTTP/1.0\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n")
        async with asyncio.timeout(60):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status, *given = head.decode("latin-1").split("\r\n")
    named = (line.split(": ", 1) for line in given)
    return Answer(int(status.split()[1]), {name.lower(): value for name, value in named}, body)


def a_volume(folder: Path) -> Path:
    """`volume` with a few files, and `secret` beside it."""
    volume, secret = folder / "volume", folder / "secret"
    (volume / "models" / "small").mkdir(parents=True)
    (volume / "models" / "small" / "weights.bin").write_bytes(bytes(range(256)) * 4)
    (volume / "models" / "readme.md").write_text("read me\n")
    (volume / "notes.txt").write_text("inside\n")
    secret.mkdir()
    (secret / "passwd").write_bytes(SECRET)
    return volume
