"""The API on both servers: the real one as every test has it, and the embedded one of this folder's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from equipment import servers
from equipment.fake_nodes import fake_node
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from gpu_runtime.kube import Client, load_config
from kube.http.api import Places, places
from kube.http.conftest import CONFIG, installed, world
from realkube.process import wait_until

__all__ = ["fault_proxy", "installed", "world"]

NODE = "fake-0"
READY = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The embedded server with our kinds and a node that is Ready, all of it through its API alone."""
    with servers.start_embedded(tmp_path_factory.mktemp("embedded")) as server:
        for path in sorted((CONFIG / "crd" / "bases").glob("*.yaml")):
            definition = yaml.safe_load(path.read_text())
            create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            spec = definition["spec"]
            kind = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            wait_until(lambda kind=kind: server.request("GET", kind).status == HTTPStatus.OK, f"{kind} is served")  # type: ignore[misc]
        create(server, "/api/v1/nodes", fake_node(NODE))
        server.request("PATCH", f"/api/v1/nodes/{NODE}/status", READY, "application/merge-patch+json")
        yield server


def create(server: ApiServer, path: str, document: dict[str, Any]) -> None:
    made = server.request("POST", path, document)
    assert made.status == HTTPStatus.CREATED, made


@pytest.fixture
async def embedded_world(embedded_server: ApiServer) -> AsyncIterator[Places]:
    """Where the test's objects live on the embedded server."""
    async with Client(load_config(embedded_server.kubeconfig), user_agent="a person") as client:
        with places(embedded_server, client, "crash") as made:
            yield made


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """A fresh folder for each process of a test."""

    def fresh() -> Iterator[Path]:
        number = 0
        while True:
            folder = tmp_path / f"process-{(number := number + 1)}"
            folder.mkdir()
            yield folder

    return fresh()
