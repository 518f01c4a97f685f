"""A world for each test: its own namespaces, the product installed, fake nodes that run pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from equipment import servers
from equipment.fault_proxy import FaultProxy
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from gpu_runtime.controllers import ready_status
from gpu_runtime.kube import Client, load_config
from kube.controllers.world import World

__all__ = ["fault_proxy"]

CONFIG = Path(__file__).resolve().parents[3] / "config"


@pytest.fixture(scope="session")
def installed(api_server: ApiServer) -> ApiServer:
    """The server with our kinds, namespaces, priority classes and roles."""
    api_server.kubectl("apply", "-k", str(CONFIG / "crd"))
    api_server.kubectl("wait", "-f", str(CONFIG / "crd" / "bases"), "--for=condition=Established", "--timeout=180s")
    api_server.kubectl("apply", "-k", str(CONFIG / "default"))
    return api_server


@pytest.fixture
def stock_namespace(api_server: ApiServer) -> Iterator[str]:
    """A namespace in which this test's units are stock."""
    with servers.fresh_namespace(api_server, "stock") as name:
        yield name


@pytest.fixture
async def world(
    installed: ApiServer,
    fake_nodes: list[str],
    fault_proxy: FaultProxy,
    namespace: str,
    stock_namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    """Nothing runs yet: `async with world.reconciling()`.

    A status that can wait does so for a shorter time than in the product: most tests wait until nothing is put off.
    """
    monkeypatch.setattr(ready_status, "FIRST_SECONDS", 1.0)
    monkeypatch.setattr(ready_status, "AGAIN_SECONDS", 1.5)
    async with Client(load_config(installed.kubeconfig), user_agent="a person") as client:
        yield World(installed, client, fault_proxy, namespace, stock_namespace, namespace)
