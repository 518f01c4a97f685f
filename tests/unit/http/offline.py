"""The whole API process while its cluster is away: enough for all that is decided before a cluster is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gpu_runtime.config import Health, RuntimeApiSettings
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube import Client
from gpu_runtime.kube.config import ClusterConfig
from gpu_runtime.kube.credentials import StaticToken

AWAY = ClusterConfig("http://127.0.0.1:1", None, StaticToken(""), "default", "a test")


@asynccontextmanager
async def offline_api(**settings: Any) -> AsyncIterator[int]:
    """The port of the API; it is ended with the block."""
    given = RuntimeApiSettings(httpAddr="127.0.0.1:0", health=Health(port=0), drainSeconds=1, **settings)
    stop = asyncio.Event()
    async with Client(AWAY) as client:
        process = RuntimeApi(client, given)
        task = asyncio.create_task(process.run(stop))
        try:
            await asyncio.wait_for(process.server.started.wait(), 60)
            yield int(process.server.url.rpartition(":")[2])
        finally:
            stop.set()
            await task


async def send(port: int, request: bytes) -> bytes:
    """All that comes back for these bytes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
