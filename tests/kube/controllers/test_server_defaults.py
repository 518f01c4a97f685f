"""What the API server makes of our children equals what the builders made: nothing is ever written twice."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest

from equipment.builders import a_storage
from equipment.servers import ApiServer
from gpu_runtime.api.meta.object import Object, ObjectMeta
from gpu_runtime.config import ControllerManagerSettings, SpecSettings
from gpu_runtime.config.controller_manager import NetworkSettings, TolerationSettings
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.gpustorage.resources import accessor
from gpu_runtime.kube import Client, Resource, load_config
from gpu_runtime.kube.children import changes
from unit.controllers.children import NAMES, Case

T = TypeVar("T", bound=Object)
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


async def test_the_children_of_an_accessor_come_back_from_the_server_as_they_were_built(
    api_server: ApiServer, namespace: str
) -> None:
    toleration = TolerationSettings(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")
    settings = ControllerManagerSettings(
        network=NetworkSettings(proxyCIDRs=("192.0.2.7/32",)), specs={"g1.1": SpecSettings(tolerations=[toleration])}
    )
    storage = a_storage("data").in_namespace(namespace).with_uid("5e9d2a34-3f0b-4a4e-9e56-0d3f4a1e7d11").object()

    async def check(client: Client, resource: Resource[T], desired: T) -> None:
        live = await client.create(resource, desired, dry_run=True)
        assert changes(live, desired) == {}

    async with Client(load_config(api_server.kubeconfig)) as client:
        await check(client, NETWORK_POLICIES, accessor.network_policy(storage, settings))
        await check(client, SERVICES, accessor.service(storage))
        await check(client, DEPLOYMENTS, accessor.deployment(storage, "data", settings))
