"""The provisioner on the API server under the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from equipment import volumes
from equipment.servers import ApiServer
from gpu_runtime.kube import Client, load_config

Provisioning = Callable[[], AbstractAsyncContextManager[None]]


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_config(api_server.kubeconfig), user_agent="test") as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the provisioner keeps its volumes."""
    return tmp_path / "volumes"


@pytest.fixture
def provisioning(api_server: ApiServer, client: Client, folder: Path) -> Provisioning:
    """Runs the provisioner inside the block."""
    return lambda: volumes.provisioning(api_server, client, folder)
