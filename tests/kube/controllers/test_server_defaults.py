"""What the API server makes of our children equals what the builders made: nothing is ever written twice."""

from __future__ import annotations

import msgspec
import pytest

from equipment.servers import ApiServer
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube import Client, load_config
from gpu_runtime.kube.children import changes
from unit.controllers.children import NAMES, Case

replace = msgspec.structs.replace


@pytest.mark.parametrize("name", NAMES)
async def test_a_child_comes_back_from_the_server_as_it_was_built(
    api_server: ApiServer, namespace: str, name: str
) -> None:
    async with Client(load_config(api_server.kubeconfig)) as client:
        for resource, child in Case.read(name).children():
            meta: ObjectMeta = replace(child.metadata, namespace=namespace)
            desired = replace(child, metadata=meta)
            live = await client.create(resource, desired, dry_run=True)
            assert live.metadata.uid, "the server took it"
            assert changes(live, desired) == {}
