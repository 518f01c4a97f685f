"""On full GPUs, with others waiting for one, a hand-over keeps to the node of the stock that it consumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
import pytest

from equipment.fake_nodes import fake_node
from equipment.waiting import eventually
from gpu_runtime.config import ControllerManagerSettings, SpecSettings
from kube.controllers.test_gpuunit import demo_unit, stock_unit
from kube.controllers.test_handover import inert_unit, record
from kube.controllers.world import Document, World

NODES = 3
GPUS = 2
LABEL = "gpu-runtime.test/world"


@pytest.fixture
async def full_settings(world: World) -> AsyncIterator[ControllerManagerSettings]:
    """A few nodes of this test alone, on which all pods of its flavour must run."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "200", "nvidia.com/gpu": str(GPUS)}
    names = [f"{world.namespace}-{number}" for number in range(NODES)]
    for name in names:
        node = fake_node(name)
        node["metadata"]["labels"][LABEL] = world.namespace  # type: ignore[index]
        node["status"] = {"capacity": capacity, "allocatable": capacity}
        await world.request("POST", "/api/v1/nodes", node)
    flavour = SpecSettings(nodeSelector={LABEL: world.namespace})
    yield msgspec.structs.replace(world.settings, specs={"g1.1": flavour})
    for name in names:
        await world.request("DELETE", f"/api/v1/nodes/{name}")


def foreign_pod(world: World, number: int) -> Document:
    container = {"name": "c", "image": "busybox:1.36", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"foreign-{number}", "namespace": world.namespace},
        "spec": {"nodeSelector": {LABEL: world.namespace}, "containers": [container]},
    }


async def running_stock(world: World) -> dict[str, str]:
    """UID and node of the stock's pods that were placed, also of those that are ending."""
    pods = await world.find("Pod", world.stock_namespace)
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


async def stock_is_warm(world: World) -> bool:
    """Whether whatever starts from now on is younger than all stock, also by the scheduler's measure.

    A freed GPU goes to a waiting pod before the unit's pod exists, and the unit takes it back. The scheduler drives
    out the youngest, and start times are whole seconds: stock of the same second could as well be the one.
    """
    pods = await world.find("Pod", world.stock_namespace)
    started = [pod["status"]["startTime"] for pod in pods if "startTime" in pod["status"]]
    return bool(max(started) < datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


@pytest.mark.parametrize("waiting", [0, 2], ids=["foreign pods wait", "stock and foreign pods wait"])
async def test_a_unit_lands_on_its_stocks_node_and_no_other_stock_is_restarted(
    world: World, full_settings: ControllerManagerSettings, waiting: int
) -> None:
    async with world.reconciling(full_settings):
        for number in range(NODES * GPUS):
            await world.create(stock_unit(world, f"stock-{number}"))
        for number in range(NODES * GPUS):
            await world.becomes("GPUUnit", f"stock-{number}", "UnitReady", namespace=world.stock_namespace)
        for number in range(2):
            await world.create(foreign_pod(world, number))
        for number in range(waiting):
            await world.create(stock_unit(world, f"waiting-{number}"))
            await world.becomes(
                "GPUUnit", f"waiting-{number}", "PodStartupFailed", "Insufficient", namespace=world.stock_namespace
            )

        async def foreign_waits() -> bool:
            pods = [await world.read("Pod", f"foreign-{number}") for number in range(2)]
            return all(pod["status"].get("conditions") and not pod["spec"].get("nodeName") for pod in pods)

        await eventually(foreign_waits, what="the foreign pods wait")
        await eventually(lambda: stock_is_warm(world), what="all stock runs since a second or more")
        # The oldest: a scheduler that is left to choose takes back the newest.
        stock = await world.read("GPUUnit", "stock-0", world.stock_namespace)
        pod = await world.pod_of("stock-0", world.stock_namespace)
        others = {uid: node for uid, node in (await running_stock(world)).items() if uid != pod["metadata"]["uid"]}
        operation = await record(world, stock, "Succeeded", name="stock-0")
        await world.create(inert_unit(world, operation))
        await world.remove("GPUUnit", "stock-0", world.stock_namespace)
        unit = await world.becomes("GPUUnit", "demo", "UnitReady")
        assert unit["status"]["nodeName"] == pod["spec"]["nodeName"]
        still = await running_stock(world)
    assert others.items() <= still.items()
    left = [each["metadata"] for each in await world.find("Pod", world.stock_namespace)]
    assert [meta["name"] for meta in left if "deletionTimestamp" in meta and meta["uid"] in others] == []


async def test_an_active_unit_drives_out_lower_priorities_and_stock_drives_out_nobody(
    world: World, full_settings: ControllerManagerSettings
) -> None:
    async with world.reconciling(full_settings):
        for number in range(NODES * GPUS):
            await world.create(foreign_pod(world, number))

        async def placed() -> bool:
            pods = await world.find("Pod")
            return sum(1 for pod in pods if pod["spec"].get("nodeName")) == NODES * GPUS

        await eventually(placed, what="foreign pods fill the nodes")
        await world.create(stock_unit(world))
        await world.becomes("GPUUnit", "stock-1", "PodStartupFailed", "Insufficient", namespace=world.stock_namespace)
        assert await placed()
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
