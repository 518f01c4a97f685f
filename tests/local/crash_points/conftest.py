"""The API's own world, on the embedded server: without kubectl, so that Python is enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from equipment import servers
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from equipment.stand_in_node import workloads
from gpu_runtime.cmd.up.install import install
from gpu_runtime.kube import Client, load_config
from kube.http.api import Places, places

__all__ = ["fault_proxy"]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with servers.start_embedded(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def installed(api_server: ApiServer) -> ApiServer:
    asyncio.run(install(api_server.kubeconfig))
    return api_server


@pytest.fixture
async def world(installed: ApiServer, tmp_path: Path) -> AsyncIterator[Places]:
    """Where the test's objects live, in a cluster whose Deployments have pods that run."""
    async with (
        workloads(installed.kubeconfig, tmp_path),
        Client(load_config(installed.kubeconfig), user_agent="a person") as client,
    ):
        with places(installed, client, "http") as made:
            yield made
