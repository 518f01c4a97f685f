"""The real API server with our CRDs installed, and a client for many small requests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from equipment.servers import ApiServer
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from kube.api.paths import CONFIG


@pytest.fixture(scope="session")
def crds(api_server: ApiServer) -> ApiServer:
    """The server, once it serves all our kinds."""
    api_server.kubectl("apply", "-k", str(CONFIG / "crd"))
    api_server.kubectl("wait", "-f", str(CONFIG / "crd" / "bases"), "--for=condition=Established", "--timeout=60s")
    return api_server


@pytest.fixture
async def client(crds: ApiServer) -> AsyncIterator[Client]:
    async with Client(load_config(crds.kubeconfig)) as client:
        yield client
