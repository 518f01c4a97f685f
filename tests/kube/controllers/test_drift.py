"""What a hand does to our children is put back; what is not ours is left alone and reported."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import a_deployment, a_service, a_stock_pool
from equipment.builders.base import Builder
from equipment.fault_proxy import creates
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER
from gpu_runtime.controllers import readiness
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.world import Document, World

REGISTRATION = "controllers/registration.py"


async def ready_unit(world: World) -> Document:
    await world.create(demo_unit(world))
    await world.becomes("GPUUnit", "demo", "UnitReady")
    await world.settled()
    return await world.read("Deployment", "demo")


def with_a_container(spec: Document) -> Document:
    pod = spec["template"]["spec"]
    containers = [*pod["containers"], {"name": "miner", "image": "busybox:1.36"}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def with_another_image(spec: Document) -> Document:
    container = {**spec["template"]["spec"]["containers"][0], "image": "busybox:1.36"}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


EDITS: dict[str, Any] = {
    "a container is added": with_a_container,
    "the image is changed": with_another_image,
    "it is scaled": lambda spec: {"spec": {"replicas": 3}},
    "it is paused": lambda spec: {"spec": {"paused": True}},
    "the host's network is taken": lambda spec: {"spec": {"template": {"spec": {"hostNetwork": True}}}},
    "an init container is added": lambda spec: {
        "spec": {"template": {"spec": {"initContainers": [{"name": "i", "image": "busybox:1.36"}]}}}
    },
    "its label is taken away": lambda spec: {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
    "the kept template is lost": lambda spec: {
        "metadata": {"annotations": {"runtime.lokiwager.io/pod-template": None}}
    },
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_deployment_is_put_back(world: World, edit: Any) -> None:
    async with world.reconciling():
        before = await ready_unit(world)
        await world.change("Deployment", "demo", edit(before["spec"]))

        async def put_back() -> bool:
            now = await world.read("Deployment", "demo")
            labels, notes = now["metadata"]["labels"], now["metadata"]["annotations"]
            assert labels == before["metadata"]["labels"]
            note = "runtime.lokiwager.io/pod-template"
            assert notes.get(note) == before["metadata"]["annotations"][note]
            return bool(now["spec"] == before["spec"])

        await world.until(put_back, "the Deployment is as it was")
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
    assert await world.events("demo", "DriftRepaired")


async def test_a_deleted_deployment_is_made_again(world: World) -> None:
    async with world.reconciling():
        before = await ready_unit(world)
        await world.remove("Deployment", "demo")

        async def made_again() -> bool:
            now = await world.find("Deployment")
            return bool(now) and now[0]["metadata"]["uid"] != before["metadata"]["uid"]

        await world.until(made_again, "there is another Deployment")
        await world.becomes("GPUUnit", "demo", "UnitReady")


# One child is edited in each test: the reconcile that one edit causes would put the others back as well.
@mutant(REGISTRATION, "owned(caches.services.store, GPU_UNITS),", "")
async def test_an_edited_service_is_put_back(world: World) -> None:
    async with world.reconciling():
        await ready_unit(world)
        await world.change(
            "Service", "demo", {"spec": {"type": "NodePort", "ports": [{"name": "x", "port": 1, "targetPort": 1}]}}
        )

        async def put_back() -> bool:
            service = await world.read("Service", "demo")
            assert service["spec"]["type"] == "ClusterIP"
            return [port["port"] for port in service["spec"]["ports"]] == [8080]

        await world.until(put_back, "the Service is as it was")
        await world.settled()


@mutant(REGISTRATION, "owned(caches.policies.store, GPU_UNITS),", "")
async def test_an_edited_network_policy_is_put_back(world: World) -> None:
    async with world.reconciling():
        await ready_unit(world)
        await world.change("NetworkPolicy", "demo", {"spec": {"egress": [{}]}})

        async def put_back() -> bool:
            return len((await world.read("NetworkPolicy", "demo"))["spec"]["egress"]) == 2

        await world.until(put_back, "the NetworkPolicy is as it was")
        await world.settled()


@mutant(REGISTRATION, "owned(caches.policies.store, GPU_UNITS),", "")
async def test_a_deleted_network_policy_is_made_again(world: World) -> None:
    async with world.reconciling():
        await ready_unit(world)
        await world.remove("NetworkPolicy", "demo")

        async def made_again() -> bool:
            return await world.exists("NetworkPolicy", "demo")

        await world.until(made_again, "the NetworkPolicy is there again")


@mutant("kube/child_writer.py", "and self.children.owns(parent.metadata, cached.metadata)", "")
async def test_a_foreign_service_is_left_alone_by_a_unit_without_ports(world: World) -> None:
    labels = {MANAGED_BY: MANAGER}
    there = await world.create(a_service("demo", world.namespace).labelled(labels))
    async with world.reconciling():
        await world.create(demo_unit(world).spec(template={}, access={}))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
    assert (await world.read("Service", "demo"))["metadata"]["uid"] == there["metadata"]["uid"]


@mutant(REGISTRATION, "owned(caches.services.store, GPU_UNITS),", "")
async def test_a_deleted_service_is_made_again(world: World) -> None:
    async with world.reconciling():
        await ready_unit(world)
        await world.remove("Service", "demo")

        async def made_again() -> bool:
            return await world.exists("Service", "demo")

        await world.until(made_again, "the Service is there again")


FOREIGN: dict[str, Any] = {
    "Deployment": a_deployment("demo").replicas(0),
    "Service": a_service("demo"),
}


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_object_of_a_units_name_is_left_alone_and_reported(
    world: World, foreign: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "NAME_CONFLICT_SECONDS", 0.5)
    there = await world.create(foreign.in_namespace(world.namespace))
    async with world.reconciling():
        await world.create(demo_unit(world))
        kind = there["kind"]
        unit = await world.becomes("GPUUnit", "demo", "NameConflict", f"{kind} {world.namespace}/demo exists")
        assert unit["status"]["phase"] == "Failed"
        now = await world.read(kind, "demo")
        assert now["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"] or (
            now["spec"] == there["spec"] and not now["metadata"].get("ownerReferences")
        )
        await world.remove(kind, "demo")
        await world.becomes("GPUUnit", "demo", "UnitReady")


async def test_a_foreign_service_of_a_pools_name_is_left_alone_and_reported(world: World) -> None:
    there = await world.create(a_service("pool-p", world.namespace))
    async with world.reconciling():
        template = {"ports": [{"name": "http", "port": 8080}]}
        await world.create(a_stock_pool("p", world.namespace).spec(template=template))
        await world.becomes("StockPool", "p", "NameConflict", "it has no owner")
    now = await world.read("Service", "pool-p")
    assert now["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]


async def test_a_foreign_object_that_comes_between_two_of_our_steps_is_left_alone(world: World) -> None:
    held = world.proxy.on(creates("deployments").in_namespace(world.namespace), times=1).hold()
    async with world.reconciling():
        await world.create(demo_unit(world))
        await held.arrived()
        there = await world.create(a_deployment("demo", world.namespace).replicas(0))
        held.release()
        await world.becomes("GPUUnit", "demo", "NameConflict", "it has no owner")
    now = await world.read("Deployment", "demo")
    assert now["spec"] == there["spec"]
    assert "ownerReferences" not in now["metadata"]


async def test_a_deployment_that_is_on_its_way_out_is_waited_for_and_made_again(world: World) -> None:
    async with world.reconciling():
        before = await ready_unit(world)
        await world.change("Deployment", "demo", {"metadata": {"finalizers": ["test.example.com/hold"]}})
        await world.remove("Deployment", "demo")
        await world.becomes("GPUUnit", "demo", "UnitProgressing")
        await world.change("Deployment", "demo", {"metadata": {"finalizers": None}})

        async def made_again() -> bool:
            now = await world.find("Deployment")
            return bool(now) and now[0]["metadata"]["uid"] != before["metadata"]["uid"]

        await world.until(made_again, "there is another Deployment")
        await world.becomes("GPUUnit", "demo", "UnitReady")
