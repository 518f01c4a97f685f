"""At rest nothing is written: not by resyncs, not by a restart; and what drifts meanwhile is still repaired."""

from __future__ import annotations

from equipment.builders import a_stock_pool
from equipment.waiting import eventually
from kube.controllers.test_gpuunit import demo_unit, stock_unit
from kube.controllers.world import World

EACH = 100  # active units, and as many of stock
RESYNCS = 20


async def all_ready(world: World) -> None:
    async def probe() -> bool:
        units = await world.find("GPUUnit") + await world.find("GPUUnit", world.stock_namespace)
        waiting = [unit["metadata"]["name"] for unit in units if unit.get("status", {}).get("phase") != "Ready"]
        assert not waiting, f"{len(waiting)} of {len(units)} are not Ready: {waiting[:3]}"
        return len(units) == 2 * EACH

    await eventually(probe, within=180, what="all units are Ready")
    await world.becomes("StockPool", "pool", "DeploymentReady", "2 of 2")
    await world.becomes("StockPool", "bad", "InvalidSpec")


async def create_all(world: World) -> None:
    for number in range(EACH):
        await world.create(demo_unit(world, f"demo-{number}").gpu(0).memory("64Mi"))
        await world.create(stock_unit(world, f"stock-{number}").gpu(0).memory("64Mi"))
    template = {"ports": [{"name": "http", "port": 80}], "readinessProbe": {"httpGet": {"port": "http"}}}
    await world.create(a_stock_pool("pool", world.namespace).replicas(2).spec(template=template))
    await world.create(a_stock_pool("bad", world.namespace).spec(memory="not-a-quantity"))


async def test_resyncs_and_a_restart_write_nothing_and_drift_in_between_is_repaired(world: World) -> None:
    async with world.reconciling():
        await create_all(world)
        await all_ready(world)
        await world.settled()
        synced = (await world.read("StockPool", "pool"))["status"]["lastSyncTime"]
        mark, before = world.proxy.mark(), world.reconciles()
        for _ in range(RESYNCS):
            await world.resync()
        assert world.reconciles() >= before + RESYNCS * (2 * EACH + 2)
        assert world.written(since=mark) == []

        await world.change("Deployment", "demo-3", {"spec": {"replicas": 0}})

        async def repaired() -> bool:
            return bool((await world.read("Deployment", "demo-3"))["spec"]["replicas"] == 1)

        await world.until(repaired, "the Deployment is as it was")
        await all_ready(world)
        await world.settled()
    mark = world.proxy.mark()
    async with world.reconciling():
        await world.resync()
        await world.resync()
        assert world.written(since=mark) == []
    assert (await world.read("StockPool", "pool"))["status"]["lastSyncTime"] == synced


async def test_every_child_costs_one_write_and_no_write_is_refused(world: World) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
        written = [each for each in world.proxy.writes() if each.call.namespace == world.namespace]
    children = [each.call.resource for each in written if each.call.resource not in ("gpuunits", "events")]
    assert sorted(children) == ["deployments", "networkpolicies", "services"]
    assert [str(each) for each in written if each.status is None or each.status >= 300] == []
