"""Replicas whose caches are behind, through the fault proxy: nobody is told "no" because of a cache."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy, Held, Match, creates, gets, lists, updates, watches
from equipment.judge import conservation, orphans
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Query
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.records import UNFINISHED
from kube.http.api import Answer, Api, Places, unit_request

PATH = "/gpu-units"
NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"
BY_COMMIT = Match("commit", lambda call: (call.body or {}).get("status", {}).get("phase") == "Succeeded")


async def replaced(world: Places, api: Api, proxy: FaultProxy) -> str:
    """The API knows a unit, then hears no more of units; another of the same name takes its place: its UID."""
    by_hand = {"metadata": {"namespace": world.instance, "name": "demo"}, "spec": {"specName": "g1.1", "image": "a"}}
    first = await world.client.create(GPU_UNITS, by_hand)
    store = api.services.units._units.store
    await eventually(lambda: store.get(first.metadata.key) is not None, what="the API knows the first unit")
    proxy.on(watches("gpuunits")).freeze()
    await world.client.delete(GPU_UNITS, first.metadata.key, uid=first.metadata.uid)
    second = await world.client.create(GPU_UNITS, by_hand)
    return second.metadata.uid


async def test_a_unit_that_was_made_again_is_deleted_by_a_replica_that_still_has_the_earlier_one(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        await replaced(world, api, fault_proxy)
        assert (await api.delete(f"{PATH}/demo")).status == 204
        with pytest.raises(NotFound):
            await world.client.get(GPU_UNITS, Key(world.instance, "demo"))
        assert (await api.delete(f"{PATH}/demo")).code == "gpu_unit_not_found"


async def test_the_job_of_a_live_unit_does_not_say_deleted_on_a_replica_that_is_behind(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as behind, world.api() as other:
        await world.seed(other, 1)
        await world.known(behind)
        await replaced(world, behind, fault_proxy)
        await world.client.delete(GPU_UNITS, Key(world.instance, "demo"))
        assert (await other.post(PATH, unit_request())).status == 201
        job = await behind.get("/operator/jobs/unit-1?type=create_gpu_unit")
        assert (job.data["status"], job.data.get("deleted")) == ("succeeded", None)
        replay = await behind.post(PATH, unit_request())
        assert (replay.status, replay.data.get("deleted")) == (200, None)


async def test_a_namespace_that_was_created_again_is_not_called_missing(world: Places, fault_proxy: FaultProxy) -> None:
    name = f"missing-{world.instance}"
    await ask(world, "POST", NAMESPACES, {"metadata": {"name": name, "finalizers": ["test.example.com/hold"]}})
    async with world.api(fault_proxy.server) as api:
        await world.seed(api, 1)
        await ask(world, "DELETE", f"{NAMESPACES}/{name}")
        cache = api.services.units._executor._namespaces._reader.store

        def leaving() -> bool:
            cached = cache.get(Key("", name))
            return cached is not None and cached.metadata.deletionTimestamp is not None

        await eventually(leaving, what="the API knows that the namespace goes")
        fault_proxy.on(watches("namespaces")).freeze()
        await ask(world, "PATCH", f"{NAMESPACES}/{name}", {"metadata": {"finalizers": None}}, MERGE)

        async def again() -> bool:
            # Where no namespace controller runs, the test does what it would do.
            final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
            await asyncio.to_thread(world.server.request, "PUT", f"{NAMESPACES}/{name}/finalize", final)
            answer = await asyncio.to_thread(world.server.request, "POST", NAMESPACES, {"metadata": {"name": name}})
            return answer.status == 201

        await eventually(again, what="the namespace is created again")
        made = await api.post(PATH, unit_request(namespace=name))
        assert made.status == 201, made
    await ask(world, "DELETE", f"{NAMESPACES}/{name}")


async def test_while_a_replica_does_not_know_the_nodes_yet_it_asks_for_patience(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api() as warm:
        await world.seed(warm, 1)
    held = fault_proxy.on(lists("nodes")).hold()
    async with world.api(fault_proxy.server, warm=False) as starting:
        await held.arrived()
        early = await starting.post(PATH, unit_request())
        assert (early.status, early.code) == (503, "service_unavailable")
        assert int(early.headers["Retry-After"]) > 0
        assert (await world.client.list(Query(OPERATIONS, world.system, labels=UNFINISHED))).items == []
        held.release()

        async def made() -> bool:
            answer = await starting.post(PATH, unit_request())
            assert answer.status in (201, 503), answer
            return answer.status == 201

        await eventually(made, what="the unit is made once the nodes are known")


async def test_a_node_that_was_opened_again_is_used_by_a_replica_that_is_behind(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        await world.seed(api, 1)
        cache = api.services.inventory._nodes.store

        def closed() -> bool:
            node = cache.get(Key("", "fake-0"))
            return node is not None and not node.schedulable

        node = "/api/v1/nodes/fake-0"
        await ask(world, "PATCH", node, {"spec": {"unschedulable": True}}, MERGE)
        try:
            await eventually(closed, what="the API knows that the node is closed")
            refused = await api.post(PATH, unit_request())
            assert "1 on a node that is down or cordoned" in refused.message
            fault_proxy.on(watches("nodes")).freeze()
        finally:
            await ask(world, "PATCH", node, {"spec": {"unschedulable": None}}, MERGE)
        assert (await api.post(PATH, unit_request())).status == 201


async def test_a_replay_under_a_quota_that_its_own_unit_fills_is_answered_with_the_unit(
    world: Places, fault_proxy: FaultProxy
) -> None:
    """The first executor stands still after it made the unit; the quota allows one, and answers before the name."""
    quotas = f"/api/v1/namespaces/{world.instance}/resourcequotas"
    none, one_unit = ({"count/gpuunits.runtime.lokiwager.io": number} for number in "01")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": none}}
    async with world.witnessed() as witness, world.api(fault_proxy.server) as one, world.api() as two:
        await world.seed(two, 2)
        await world.known(one)
        await ask(world, "POST", quotas, quota)
        counted = {"status": {"hard": none, "used": none}}
        await ask(world, "PATCH", f"{quotas}/one/status", counted, MERGE)
        await eventually(lambda: refused(two, unit_request("probe", "probe")), what="the quota is in force")
        await ask(world, "PATCH", f"{quotas}/one", {"spec": {"hard": one_unit}}, MERGE)
        await ask(world, "PATCH", f"{quotas}/one/status", {"status": {"hard": one_unit}}, MERGE)
        held = fault_proxy.on(updates("operations") & BY_COMMIT, times=1).hold()
        first = await until_held(one, unit_request(), held)
        await eventually(lambda: refused(two, unit_request("probe", "probe")), what="the quota is full")
        replay = await two.post(PATH, unit_request())
        assert (replay.status, replay.data["name"]) == (200, "demo")
        held.release()
        assert (await first).status == 201
        await world.free_stock()
        seen = await world.seen(witness)
        assert conservation(seen, seeded=2, stock_namespace=world.stock) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def test_a_replay_is_not_answered_with_the_unit_of_another_payload_that_took_the_id_over(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with (
        FaultProxy(world.server, name="replay") as between,
        world.api(fault_proxy.server) as one,
        world.api(between.server) as two,
        world.api() as three,
    ):
        await world.seed(three, 2)
        for api in (one, two):
            await world.known(api)
        stopped = fault_proxy.on(creates("gpuunits").in_namespace(world.instance), times=1).hold()
        first = asyncio.create_task(one.post(PATH, unit_request()))
        await stopped.arrived()
        looks_again = between.on(gets("operations"), nth=2).hold()
        replay = asyncio.create_task(two.post(PATH, unit_request()))
        await looks_again.arrived()
        (record,) = (await world.client.list(Query(OPERATIONS, world.system, labels=UNFINISHED))).items
        await three.services.sweeper.take_up(record)
        other = await three.post(PATH, unit_request(name="another"))
        assert other.status == 201
        looks_again.release()
        answer = await replay
        assert (answer.status, answer.code) == (409, "operation_conflict"), answer
        stopped.release()
        assert (await first).code == "operation_conflict"
        await world.reconcile_inert()
        await world.free_stock()
        assert [unit.metadata.name for unit in await world.units(world.instance)] == ["another"]
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def refused(api: Api, body: dict[str, Any]) -> bool:
    answer = await api.post(PATH, body)
    assert answer.status in (409, 503), answer
    return answer.code == "insufficient_capacity"


async def until_held(api: Api, body: dict[str, Any], held: Held) -> asyncio.Task[Answer]:
    """Sends the request until it stands still at `held`: a quota that was changed may refuse for a moment."""

    async def stands() -> list[asyncio.Task[Answer]]:
        asked = asyncio.create_task(api.post(PATH, body))
        arrived = asyncio.create_task(held.arrived())
        await asyncio.wait((asked, arrived), return_when=asyncio.FIRST_COMPLETED)
        if not arrived.done():
            arrived.cancel()
            assert (await asked).status in (409, 503), await asked
            return []
        return [asked]

    return (await eventually(stands, what="the request stands still"))[0]


async def ask(world: Places, method: str, path: str, body: Any = None, media: str = "application/json") -> None:
    await world.client.request(method, path, body=body, subject=f"{method} {path}", content_type=media)
