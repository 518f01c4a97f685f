"""The reconciler's part in a hand-over: it finishes what a dead executor left, and builds when the stock is gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from equipment.builders import a_deployment, an_operation
from equipment.builders.product import UnitBuilder
from equipment.clock import Later
from equipment.fault_proxy import creates
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID, SOURCE_STOCK_NODE, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.labels import MANAGED_BY, MANAGER, OPERATION
from gpu_runtime.config import StockSettings
from gpu_runtime.controllers.gpuunit import admitter
from kube.controllers.test_gpuunit import demo_unit, stock_unit
from kube.controllers.world import Document, World

RECORD = "creategpuunit-op-1"


async def ready_stock(world: World) -> Document:
    await world.create(stock_unit(world))
    return await world.becomes("GPUUnit", "stock-1", "UnitReady", namespace=world.stock_namespace)


async def record(world: World, stock: Document, phase: str, name: str = "stock-1") -> Document:
    choice = {
        "namespace": world.stock_namespace,
        "name": name,
        "uid": stock["metadata"]["uid"],
        "nodeName": stock["status"]["nodeName"],
    }
    operation = an_operation("op-1").in_namespace(world.namespace).status(phase=phase, decisions={"stock": choice})
    return await world.create(operation)


def inert_unit(world: World, operation: Document) -> UnitBuilder:
    unit = demo_unit(world).annotated({OPERATION_UID: operation["metadata"]["uid"]})
    return unit.labelled({OPERATION: operation["metadata"]["name"]})


async def test_an_inert_unit_gets_nothing_built_while_its_operation_is_under_way(world: World) -> None:
    async with world.reconciling():
        operation = await record(world, await ready_stock(world), "Pending")
        await world.create(inert_unit(world, operation))
        unit = await world.becomes("GPUUnit", "demo", "AwaitingStock", "has not handed over its stock yet")
        assert unit["status"]["phase"] == "Progressing"
        assert world.proxy.count(creates().in_namespace(world.namespace) & ~creates("events")) == 0


@mutant(
    "controllers/gpuunit/reconcile.py",
    "ours = made is not None and is_controlled_by(made.metadata, unit.metadata)",
    "ours = True",
)
async def test_a_foreign_deployment_of_its_name_does_not_make_an_inert_unit_live(world: World) -> None:
    managed = {MANAGED_BY: MANAGER}
    await world.create(a_deployment("demo", world.namespace).labelled(managed))
    async with world.reconciling():
        operation = await record(world, await ready_stock(world), "Pending")
        await world.create(inert_unit(world, operation))
        unit = await world.becomes("GPUUnit", "demo", "AwaitingStock", "has not handed over its stock yet")
        assert not unit["status"].get("readyReplicas")
        assert world.proxy.count(creates().in_namespace(world.namespace) & ~creates("events")) == 0


@mutant("controllers/registration.py", "mapped(caches.units.store, waits_for_stock),", "")
async def test_a_wait_for_stock_without_a_pod_ends_when_the_stock_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitter, "RELEASE_SECONDS", 3600.0)
    async with world.reconciling(clock=Later()):
        await world.create(stock_unit(world).memory("much"))
        stock = await world.becomes("GPUUnit", "stock-1", "InvalidSpec", namespace=world.stock_namespace)
        stock["status"]["nodeName"] = "fake-0"
        await world.create(inert_unit(world, await record(world, stock, "Succeeded")))
        await world.becomes("GPUUnit", "demo", "AwaitingStock", "stock-1 is not released yet")
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")


@mutant("controllers/registration.py", "mapped(caches.pods, waits_for_pod),", "")
async def test_a_wait_for_the_stocks_pod_ends_when_the_pod_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitter, "RELEASE_SECONDS", 3600.0)
    async with world.reconciling(clock=Later()):
        stock = await ready_stock(world)
        pod = (await world.pod_of("stock-1", world.stock_namespace))["metadata"]["name"]
        held = {"metadata": {"finalizers": ["test.example.com/hold"]}}
        await world.change("Pod", pod, held, namespace=world.stock_namespace)
        operation = await record(world, stock, "Succeeded")
        await world.create(inert_unit(world, operation))
        await world.becomes("GPUUnit", "demo", "AwaitingStock", "stock-1 is not released yet")
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)

        async def ending() -> bool:
            return "deletionTimestamp" in (await world.read("Pod", pod, world.stock_namespace))["metadata"]

        await world.until(ending, "the stock's pod is told to end")
        # Said so, the unit has nothing more to write: from here on only the pod's end brings it back.
        await world.becomes("GPUUnit", "demo", "AwaitingStock", pod)
        await world.resync()
        await world.change("Pod", pod, {"metadata": {"finalizers": None}}, namespace=world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")


async def test_a_committed_unit_is_admitted_waits_for_its_stock_and_is_built_on_its_node(world: World) -> None:
    async with world.reconciling():
        stock = await ready_stock(world)
        operation = await record(world, stock, "Succeeded")
        await world.create(inert_unit(world, operation))
        unit = await world.becomes("GPUUnit", "demo", "AwaitingStock", "stock-1 is not released yet")
        notes = unit["metadata"]["annotations"]
        assert notes[SOURCE_STOCK_UID] == stock["metadata"]["uid"]
        assert notes[SOURCE_STOCK_NODE] == stock["status"]["nodeName"]
        assert not await world.find("Deployment")

        # The object goes at once, its pod in its own time: until then the GPU is not free.
        pod = (await world.pod_of("stock-1", world.stock_namespace))["metadata"]["name"]
        held = {"metadata": {"finalizers": ["test.example.com/hold"]}}
        await world.change("Pod", pod, held, namespace=world.stock_namespace)
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "AwaitingStock", "pod of stock unit")
        assert not await world.find("Deployment")

        await world.change("Pod", pod, {"metadata": {"finalizers": None}}, namespace=world.stock_namespace)
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
        assert unit["status"]["nodeName"] == stock["status"]["nodeName"]
        affinity = (await world.pod_of("demo"))["spec"]["affinity"]["nodeAffinity"]
        term = affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"]
        assert term["matchFields"][0]["values"] == [stock["status"]["nodeName"]]


FATES: dict[str, Any] = {
    "failed": {"phase": "Failed"},
    "gone": {"delete": True},
    "another's": {"again": True},
}


@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
async def test_an_inert_unit_whose_operation_can_never_commit_it_is_removed(world: World, fate: Document) -> None:
    async with world.reconciling():
        stock = await ready_stock(world)
        operation = await record(world, stock, fate.get("phase", "Pending"))
        if "delete" in fate or "again" in fate:
            await world.remove("Operation", RECORD)
        if "again" in fate:
            await record(world, stock, "Succeeded")
        await world.create(inert_unit(world, operation))

        async def removed() -> bool:
            return not await world.exists("GPUUnit", "demo")

        await world.until(removed, "the inert unit is removed")
        assert world.proxy.count(creates().in_namespace(world.namespace)) == 0
    assert await world.exists("GPUUnit", "stock-1", world.stock_namespace)


async def test_an_admitted_unit_is_built_though_its_operation_is_long_gone(world: World) -> None:
    async with world.reconciling():
        notes = {OPERATION_UID: "a-uid-of-old", SOURCE_STOCK_UID: "another-uid-of-old"}
        await world.create(demo_unit(world).annotated(notes))
        await world.becomes("GPUUnit", "demo", "UnitReady")


async def test_a_controller_that_takes_stock_for_active_units_removes_none_of_it(world: World) -> None:
    operation = an_operation("seed-1", "CreateStockUnits").in_namespace(world.namespace).committed()
    made = await world.create(operation)
    seeded = stock_unit(world).annotated({OPERATION_UID: made["metadata"]["uid"]})
    await world.create(seeded.labelled({OPERATION: made["metadata"]["name"]}))
    wrong = msgspec.structs.replace(world.settings, stock=StockSettings(namespaces=("elsewhere",)))
    async with world.reconciling(wrong):
        unit = await world.becomes(
            "GPUUnit", "stock-1", "InvalidSpec", "a stock namespace?", namespace=world.stock_namespace
        )
    assert "deletionTimestamp" not in unit["metadata"]
    async with world.reconciling():
        await world.becomes("GPUUnit", "stock-1", "UnitReady", namespace=world.stock_namespace)
