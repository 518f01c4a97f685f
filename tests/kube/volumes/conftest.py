"""The provisioner on the API server; where that is no real one, claims are bound by the embedded cluster's binder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from equipment.servers import ApiServer
from gpu_runtime.kube import Client, Manager, Recorder, load_config
from gpu_runtime.local.controllers.volumes.binder import Binder
from realkube.provisioner import provision

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

    @asynccontextmanager
    async def run() -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(provision(client, folder, stop))
            if api_server.kind == "embedded":
                recorder = Recorder(client, "binder", "test")
                manager = Manager(client, recorder=recorder)
                Binder(manager, recorder)
                group.create_task(manager.run(stop))
            try:
                yield
            finally:
                stop.set()

    return run
