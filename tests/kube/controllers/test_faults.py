"""Whatever is lost, refused or killed on the way, the end is the same, and nothing is done twice."""

from __future__ import annotations

import asyncio

import pytest

from equipment.builders import a_stock_pool
from equipment.clock import Later
from equipment.fault_proxy import Exchange, creates, expired, updates, watches, writes
from equipment.fault_proxy.crash_points import CrashPoint, crash_points
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.test_handover import inert_unit
from kube.controllers.world import Document, World


async def committed_unit(world: World, name: str) -> None:
    """What an executor left that died right after its commit; the stock is gone already."""
    choice = {"namespace": world.stock_namespace, "name": "stock-1", "uid": f"uid-of-{name}", "nodeName": "fake-1"}
    operation: Document = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "Operation",
        "metadata": {"name": f"op-{name}", "namespace": world.namespace},
        "spec": {"type": "CreateGPUUnit", "operationID": name, "requestHash": "0" * 64},
        "status": {"phase": "Succeeded", "decisions": {"stock": choice}},
    }
    unit = inert_unit(world, await world.create(operation))
    await world.create(unit.metadata(name=name))


async def finished(world: World, name: str) -> Document:
    """The end that is the same whatever happened: what there is of the unit, without names that the server chose."""
    unit = await world.becomes("GPUUnit", name, "UnitReady")
    await world.settled()
    children = {kind: await world.find(kind) for kind in ("Deployment", "Service", "NetworkPolicy")}
    mine = {
        kind: [
            each["spec"] for each in found if each["metadata"]["ownerReferences"][0]["uid"] == unit["metadata"]["uid"]
        ]
        for kind, found in children.items()
    }
    pods = await world.find("Pod", labels=f"runtime.lokiwager.io/controlled-by={unit['metadata']['uid']}")
    assert {kind: len(found) for kind, found in mine.items()} == {"Deployment": 1, "Service": 1, "NetworkPolicy": 1}
    assert len(pods) == 1
    return unit


def writes_about(world: World, since: int = 0) -> list[Exchange]:
    mine = writes().in_namespace(world.namespace)
    return world.proxy.calls(mine, since=since)


async def die_at(world: World, point: CrashPoint, name: str) -> bool:
    """Runs the reconcilers until they are killed at this point; False if they were done before they came to it."""

    async def live() -> None:
        async with world.reconciling(clock=Later()):
            await finished(world, name)

    process = asyncio.create_task(live())
    kill = world.proxy.kill_at(point.n, process.cancel, point.when, of=writes().in_namespace(world.namespace))
    await asyncio.gather(process, return_exceptions=True)
    killed = bool(kill.hits)
    kill.remove()
    return killed


async def test_a_controller_that_dies_at_any_write_leaves_nothing_that_its_successor_does_not_finish(
    world: World,
) -> None:
    await committed_unit(world, "clean")
    async with world.reconciling(clock=Later()):
        await finished(world, "clean")
    points = crash_points(writes_about(world))
    assert len(points) >= 10, "admission, three children and a status, before and after each"
    deaths = 0
    for number, point in enumerate(points):
        name = f"crashed-{number}"
        await committed_unit(world, name)
        deaths += await die_at(world, point, name)
        async with world.reconciling(clock=Later()):
            await finished(world, name)
        await world.remove("GPUUnit", name)
    assert deaths >= 10, "a slow pod may cost one run a status more than another, and no more than that"


async def test_lost_answers_refusals_and_broken_watches_change_nothing_about_the_end(world: World) -> None:
    mine = writes().in_namespace(world.namespace)
    world.proxy.on(creates() & mine, times=1, per_object=True).drop_response()
    world.proxy.on(updates() & mine, times=1, per_object=True).answer(409)
    world.proxy.on(mine, nth=3).answer(429, headers={"Retry-After": "1"})
    world.proxy.on(mine, nth=5).answer(500)
    async with world.reconciling():
        for number in range(3):
            await world.create(demo_unit(world, f"demo-{number}"))
        for kind in ("gpuunits", "deployments", "pods"):
            world.proxy.on(watches(kind), times=1).cut()
            world.proxy.on(watches(kind), times=1).inject(expired())
        for number in range(3):
            await finished(world, f"demo-{number}")


@pytest.mark.parametrize("frozen", ["pods", "deployments", "gpuunits"])
async def test_what_a_frozen_watch_hides_is_seen_when_it_goes_on(world: World, frozen: str) -> None:
    async with world.reconciling():
        await world.create(a_stock_pool("other", world.namespace))
        await world.becomes("StockPool", "other", "DeploymentReady")
        held = world.proxy.on(watches(frozen)).freeze()
        await world.create(demo_unit(world))
        await world.change("StockPool", "other", {"spec": {"replicas": 2}})
        held.thaw()
        await finished(world, "demo")
        await world.becomes("StockPool", "other", "DeploymentReady", "2 of 2")
