"""A client on the API server, one behind the fault proxy, and caches to watch with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from equipment.waiting import eventually
from equipment.world import Follow, MakeConfigMap, Widgets
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube import Client, Query, Reflector, Store, load_config
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap

__all__ = ["fault_proxy"]


@pytest.fixture
async def client(api_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_config(api_server.kubeconfig), user_agent="test") as client:
        yield client


@pytest.fixture
async def proxied(fault_proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client whose every call passes the fault proxy."""
    async with Client(load_config(fault_proxy.server.kubeconfig), user_agent="proxied") as client:
        yield client


@pytest.fixture
def config_map(namespace: str) -> MakeConfigMap:
    """Makes ConfigMaps for this test's namespace."""

    def make(name: str, **data: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)

    return make


@pytest.fixture
def following(proxied: Client, namespace: str) -> Follow:
    """A reflector of this namespace's ConfigMaps behind the proxy, running inside the block."""

    @asynccontextmanager
    async def follow(**options: Any) -> AsyncIterator[Reflector[ConfigMap]]:
        # Every namespace gets a ConfigMap of its own from a controller, at a time of its choosing.
        query = Query(CONFIG_MAPS, namespace, fields="metadata.name!=kube-root-ca.crt")
        reflector = Reflector(proxied, query, Store[ConfigMap](), **options)
        task = asyncio.create_task(reflector.run())
        try:
            await eventually(reflector.synced.is_set, what="the first list")
            yield reflector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return follow


@pytest.fixture
async def widgets(client: Client) -> AsyncIterator[Widgets]:
    """A kind of this test alone, not installed yet."""
    kind = Widgets(client)
    yield kind
    await kind.remove()
