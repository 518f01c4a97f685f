"""The API on a real API server: namespaces of its own for each test, fake nodes, no controllers unless asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest

from equipment.fake_nodes import fake_node
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from equipment.waiting import eventually_sync
from gpu_runtime.kube import Client, load_config
from kube.http.api import KINDS, Api, Places, places

__all__ = ["fault_proxy"]

CONFIG = Path(__file__).resolve().parents[3] / "config"


@pytest.fixture(scope="session")
def installed(api_server: ApiServer) -> ApiServer:
    """The server with our kinds and priority classes."""
    api_server.kubectl("apply", "-k", str(CONFIG / "crd"))
    api_server.kubectl("wait", "-f", str(CONFIG / "crd" / "bases"), "--for=condition=Established", "--timeout=180s")
    base = "/apis/runtime.lokiwager.io/v1alpha1"
    for kind in KINDS:  # established or not, the server asks for patience until a new kind's storage is ready
        path = f"{base}/{kind}"
        eventually_sync(lambda path=path: api_server.request("GET", path).status == HTTPStatus.OK)  # type: ignore[misc]
    api_server.kubectl("apply", "-k", str(CONFIG / "default"))  # priority classes, which pods of ours name
    return api_server


@pytest.fixture(scope="session")
def ready_node(request: pytest.FixtureRequest, installed: ApiServer) -> None:
    """A node that stock can be on. Nothing runs on it where no kwok plays it; here nothing has to."""
    if installed.kind == "real":
        request.getfixturevalue("fake_nodes")
        return
    node = fake_node("fake-0")
    status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}}
    assert installed.request("POST", "/api/v1/nodes", node).status == HTTPStatus.CREATED
    merge = "application/merge-patch+json"
    assert installed.request("PATCH", "/api/v1/nodes/fake-0/status", status, merge).status == HTTPStatus.OK


@pytest.fixture
async def world(installed: ApiServer, ready_node: None) -> AsyncIterator[Places]:
    """Where the test's objects live."""
    async with Client(load_config(installed.kubeconfig), user_agent="a person") as client:
        with places(installed, client, "http") as made:
            yield made


@pytest.fixture
async def api(world: Places) -> AsyncIterator[Api]:
    """One running API."""
    async with world.api() as running:
        yield running
