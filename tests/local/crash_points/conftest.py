"""The API's own world, on the embedded server: without kubectl, so that Python is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from equipment import servers
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from gpu_runtime.cmd.up.prerequisites import install
from kube.http.conftest import ready_node, world

__all__ = ["fault_proxy", "ready_node", "world"]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with servers.start_embedded(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def installed(api_server: ApiServer) -> ApiServer:
    asyncio.run(install(api_server.kubeconfig))
    return api_server
