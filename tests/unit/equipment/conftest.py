from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy
from unit.equipment.tiny_server import TinyServer


@pytest.fixture
async def tiny() -> AsyncIterator[TinyServer]:
    server = TinyServer()
    yield server
    await server.stop()


@pytest.fixture
async def proxy(tiny: TinyServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(await tiny.start(), keep_reads=True) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that repeats nothing by itself, pointed at the proxy."""
    trust = ssl.create_default_context(cafile=proxy.server.ca_file)
    headers = {"Authorization": f"Bearer {proxy.server.token}", "User-Agent": "test-client"}
    async with aiohttp.ClientSession(
        proxy.server.url, connector=aiohttp.TCPConnector(ssl=trust), headers=headers
    ) as session:
        session._retry_connection = False
        yield session
