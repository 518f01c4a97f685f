"""One embedded API server for all tests, and a broker for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from equipment import servers
from equipment.nats import running_nats
from equipment.servers import ApiServer
from gpu_runtime.cmd.up.install import install
from gpu_runtime.kube import Client, load_config
from local.invocations.world import Api, World


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with servers.start_embedded(tmp_path_factory.mktemp("server")) as running:
        asyncio.run(install(running.kubeconfig))
        yield running


@pytest.fixture
async def world(embedded_server: ApiServer, tmp_path: Path) -> AsyncIterator[World]:
    async with (
        running_nats(tmp_path, with_streams=False) as nats,
        Client(load_config(embedded_server.kubeconfig)) as client,
        nats.connection() as broker,
    ):
        yield World(embedded_server, nats, client, broker)


@pytest.fixture
async def api(world: World) -> AsyncIterator[Api]:
    async with world.api() as running:
        yield running
