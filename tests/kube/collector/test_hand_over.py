"""Hand-overs and deletions while the garbage collector knows none of our kinds: right after an installation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from equipment.builders import a_unit
from equipment.fault_proxy import deletes, gets, watches
from equipment.mutation import mutant
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.controllers.product_kinds import GPU_UNITS
from kube.controllers.test_drift import ready_unit
from kube.controllers.test_gpuunit import demo_unit, stock_unit
from kube.controllers.test_process import ACCOUNT, SYSTEM, controller_manager
from kube.controllers.test_release import admitted, asked
from kube.controllers.world import Document, World

RECONCILE = "controllers/gpuunit/reconcile.py"


async def canary(world: World) -> None:
    """A ConfigMap that the collector would delete if it knew our kinds: its owner, a unit, is gone."""
    # Its size is no quantity, so nothing is built for it.
    owner = (await world.create(a_unit("short-lived", world.stock_namespace).memory("much")))["metadata"]
    reference = {"apiVersion": GPU_UNITS.api_version, "kind": "GPUUnit", "name": owner["name"], "uid": owner["uid"]}
    document = {"metadata": {"name": "canary", "ownerReferences": [reference]}}
    await world.request("POST", f"/api/v1/namespaces/{world.stock_namespace}/configmaps", document)
    await world.remove("GPUUnit", "short-lived", world.stock_namespace)


async def collector_is_blind(world: World) -> bool:
    path = f"/api/v1/namespaces/{world.stock_namespace}/configmaps"
    items = (await world.request("GET", path))["items"]
    return any(each["metadata"]["name"] == "canary" for each in items)


async def consumed(world: World) -> Document:
    """A unit that waits for its stock, which nobody has deleted yet; the stock's Deployment."""
    await world.create(stock_unit(world))
    stock = await world.becomes("GPUUnit", "stock-1", "UnitReady", namespace=world.stock_namespace)
    await admitted(world, stock)
    await world.becomes("GPUUnit", "demo", "AwaitingStock", "stock-1 is not released yet")
    return await world.read("Deployment", "stock-1", world.stock_namespace)


@mutant(RECONCILE, "await self._end_stock(unit)", "pass")
async def test_a_hand_over_right_after_an_installation_does_not_wait_for_the_garbage_collector(world: World) -> None:
    async with world.reconciling():
        await canary(world)
        made = (await consumed(world))["metadata"]
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")
        assert await collector_is_blind(world)
        await world.settled()
    assert [each["uid"] for each in asked(world)] == [made["uid"]]


@mutant("controllers/gpuunit/teardown.py", "if uid in self._asked:", "if False:")
@mutant("controllers/gpuunit/teardown.py", "self._asked.add(uid)", "pass")
async def test_two_reconciles_that_find_the_stock_gone_delete_its_deployment_once(world: World) -> None:
    async with world.reconciling():
        await consumed(world)
        held = world.proxy.on(gets("gpuunits").named("stock-1")).hold()
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await held.arrived()
        before = world.reconciles()
        for key in (Key(world.namespace, "demo"), Key(world.stock_namespace, "stock-1")):
            world.controllers["gpuunit"].queue.add(key)
        await world.until(lambda: world.reconciles() > before, "the other reconcile has passed")
        held.release()
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
    assert len(asked(world)) == 1


@mutant("controllers/gpuunit/admitter.py", "and not is_ending(stock.metadata)", "")
async def test_stock_whose_deletion_awaits_the_collector_is_released_all_the_same(world: World) -> None:
    async with world.reconciling():
        await canary(world)
        await consumed(world)
        await asyncio.to_thread(
            world.server.kubectl,
            *("delete", "gpuunit", "stock-1", "-n", world.stock_namespace, "--cascade=foreground", "--wait=false"),
        )
        await world.becomes("GPUUnit", "demo", "UnitReady")
        assert await world.exists("GPUUnit", "stock-1", world.stock_namespace)
        assert await collector_is_blind(world)


FAULTS = ["the request is lost", "the answer is lost", "the server fails", "somebody changed it meanwhile"]


@mutant(
    "controllers/gpuunit/teardown.py",
    "except BaseException:\n            self._asked.discard(uid)",
    "except ValueError:",
)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_hand_over_outlives_a_failed_deletion_of_its_stocks_deployment(world: World, fault: str) -> None:
    first = world.proxy.on(deletes("deployments").in_namespace(world.stock_namespace), times=1)
    match fault:
        case "the request is lost":
            first.drop_request()
        case "the answer is lost":
            first.drop_response()
        case "the server fails":
            first.answer(500)
        case _:
            first.answer(409)
    async with world.reconciling():
        await canary(world)
        await consumed(world)
        await world.remove("GPUUnit", "stock-1", world.stock_namespace)
        await world.becomes("GPUUnit", "demo", "UnitReady")
        assert await collector_is_blind(world)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_controller_that_dies_while_it_ends_the_stock_leaves_it_to_its_successor(
    world: World, when: Literal["before", "after"]
) -> None:
    async def live() -> None:
        async with world.reconciling():
            await consumed(world)
            await world.remove("GPUUnit", "stock-1", world.stock_namespace)
            await world.becomes("GPUUnit", "demo", "UnitReady")

    await canary(world)
    process = asyncio.create_task(live())
    ours = deletes("deployments").in_namespace(world.stock_namespace)
    kill = world.proxy.kill_at(1, process.cancel, when, of=ours)
    await asyncio.gather(process, return_exceptions=True)
    await kill.happened()
    kill.remove()
    async with world.reconciling():
        await world.becomes("GPUUnit", "demo", "UnitReady")
        assert await collector_is_blind(world)


@mutant(RECONCILE, "await self.teardown.remove(key)\n        unit", "unit")
async def test_a_deleted_unit_ends_its_pod_though_the_collector_does_not_know_its_kind(world: World) -> None:
    async with world.reconciling():
        await canary(world)
        made = (await ready_unit(world))["metadata"]
        await world.remove("GPUUnit", "demo")
        await world.until(lambda: nothing_runs(world), "Deployment and pod are gone")
        assert await collector_is_blind(world)
        await world.settled()
    assert [each["uid"] for each in asked(world)] == [made["uid"]]
    assert "resourceVersion" in asked(world)[0]


@mutant(
    "controllers/registration.py",
    "GPU_UNITS, urgent=urgency), is_primary=True)",
    "GPU_UNITS, urgent=urgency), is_primary=False)",
)
async def test_a_unit_that_was_deleted_while_no_controller_ran_ends_its_pod_when_one_starts(world: World) -> None:
    async with world.reconciling():
        await ready_unit(world)
    await canary(world)
    await world.remove("GPUUnit", "demo")
    async with world.reconciling():
        await world.until(lambda: nothing_runs(world), "Deployment and pod are gone")
        assert await collector_is_blind(world)


@mutant("controllers/gpuunit/teardown.py", "unit.metadata.uid == owner.uid and not", "not")
async def test_a_deleted_unit_ends_its_pod_though_another_unit_has_its_name_by_now(world: World) -> None:
    async with world.reconciling():
        await canary(world)
        await ready_unit(world)
        held = world.proxy.on(watches("gpuunits")).freeze()
        await world.remove("GPUUnit", "demo")
        await world.create(demo_unit(world))
        held.thaw()
        await world.until(lambda: nothing_runs(world), "Deployment and pod of the deleted unit are gone")
        assert await collector_is_blind(world)


async def test_the_process_ends_a_deleted_units_pod_with_the_roles_that_it_declared(
    world: World, installed: ApiServer, tmp_path: Path
) -> None:
    account = installed.as_service_account(SYSTEM, ACCOUNT, tmp_path)
    async with controller_manager(account, tmp_path) as running:
        await eventually(running.is_ready, what="the process is ready")
        await canary(world)
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.remove("GPUUnit", "demo")
        await world.until(lambda: nothing_runs(world), "Deployment and pod are gone")
        assert await collector_is_blind(world)
        assert [line for line in running.lines() if "forbidden: User" in str(line)] == []


async def nothing_runs(world: World) -> bool:
    return not await world.find("Deployment") and not await world.find("Pod")
