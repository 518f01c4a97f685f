"""Batches and pools that are executed twice: by a replica that stood still, after a crash, under a full quota."""

from __future__ import annotations

import asyncio
from typing import Any

from equipment.fault_proxy import FaultProxy, creates, updates
from equipment.judge import conservation, made_once, unlisted
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.kube import ApiError, Query
from gpu_runtime.kube.errors import Forbidden
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.service.stock.seeding_queue import WORKERS
from kube.http.api import Api, Places, pool_request, unit_request

BODY = {"operationID": "seed", "specName": "g1.1", "memory": "1Gi", "gpu": 1, "replicas": 3}
PATH, POOLS = "/operator/stock-units", "/operator/stockpools"


async def succeeded(api: Api, operation_id: str = "seed") -> None:
    async def done() -> bool:
        return bool((await api.get(f"/operator/jobs/{operation_id}")).data["status"] == "succeeded")

    await eventually(done, what=f"job {operation_id} succeeds")


async def killed_before_it_lists(world: Places, proxy: FaultProxy, path: str, body: dict[str, Any]) -> None:
    """A replica makes all objects of the request and dies before it can write that into the record."""
    async with world.api(proxy.server) as first:
        kill = proxy.kill_at(1, first.kill, "before", of=updates("operations"))
        asked = asyncio.create_task(first.post(path, body))
        await kill.happened()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    kill.remove()


@mutant("service/stock/unit_list.py", "self._remove_units(record, lost | open_)", "self._remove_units(record, {})")
async def test_a_replica_that_wakes_up_after_the_stock_was_consumed_does_not_make_more(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.witnessed() as witness, world.api(fault_proxy.server) as one, world.api() as two:
        held = fault_proxy.on(creates("gpuunits").in_namespace(world.stock)).hold()
        assert (await one.post(PATH, BODY)).status == 202
        await held.arrived(3)
        assert (await two.post(PATH, BODY)).status in (200, 202)
        await succeeded(two)
        await world.make_ready()
        await world.known(two)
        for name in ("u1", "u2"):
            assert (await two.post("/gpu-units", unit_request(name, name))).status == 201

        async def consumed() -> bool:
            return len(await world.units(world.stock)) == 1

        await eventually(consumed, what="two units are consumed")
        held.release()

        async def only_one_left() -> bool:
            answered = [each for each in fault_proxy.calls(creates("gpuunits")) if each.done]
            return len(answered) == 3 and len(await world.units(world.stock)) == 1

        await eventually(only_one_left, what="what the first replica made too late is removed")
        await one.services.sweeper.sweep()
        seen = await world.seen(witness)
        assert made_once(seen, {"seed": 3}, stock_namespace=world.stock) == []
        late = unlisted(seen, stock_namespace=world.stock)
        assert len(late) == 2
        assert conservation(seen, removed=late, stock_namespace=world.stock) == []


@mutant("service/stock/stock_units.py", "        await self._seeding.unit_list.settle(unit)\n", "")
async def test_stock_that_an_operator_deleted_does_not_come_back_when_its_batch_goes_on(
    world: Places, fault_proxy: FaultProxy
) -> None:
    await killed_before_it_lists(world, fault_proxy, PATH, BODY)
    first, *_ = [unit.metadata for unit in await world.units(world.stock)]
    async with world.api() as second:
        assert (await second.delete(f"{PATH}/{first.name}")).status == 204
        await second.services.sweeper.sweep()
        await succeeded(second)
    left = {unit.metadata.name for unit in await world.units(world.stock)}
    assert len(left) == 2
    assert first.name not in left


@mutant(
    "service/stock/seeding.py",
    "if uid := await self.unit_list.adopt(state.record, wanted.metadata.key):",
    'if uid := "":',
)
async def test_a_batch_under_an_exactly_filled_quota_ends_as_succeeded(world: Places, fault_proxy: FaultProxy) -> None:
    await killed_before_it_lists(world, fault_proxy, PATH, BODY)
    await quota(world, world.stock, "gpuunits", 3)
    async with world.api() as second:
        assert (await second.post(PATH, BODY)).status in (200, 202)
        await succeeded(second)
    assert len(await world.units(world.stock)) == 3


@mutant(
    "service/operations/object_executor.py",
    "if live is not None and made_by(live.metadata, record):",
    "if live is not None and isinstance(cause, kube.AlreadyExists) and made_by(live.metadata, record):",
)
async def test_a_pool_under_an_exactly_filled_quota_is_found_by_its_replay(
    world: Places, fault_proxy: FaultProxy
) -> None:
    body = pool_request(namespace=world.instance)
    await killed_before_it_lists(world, fault_proxy, POOLS, body)
    await quota(world, world.instance, "stockpools", 1)
    async with world.api() as second:
        replay = await second.post(POOLS, body)
        assert (replay.status, replay.data["status"]) == (200, "succeeded")


@mutant("service/stock/pools.py", "        await self._executor.settle(pool)\n", "")
async def test_a_pool_deleted_with_204_does_not_come_back_when_the_answer_to_its_creation_was_lost(
    world: Places, fault_proxy: FaultProxy
) -> None:
    body = pool_request(namespace=world.instance)
    await killed_before_it_lists(world, fault_proxy, POOLS, body)
    async with world.api() as second:
        assert (await second.delete(f"{POOLS}/{body['name']}?namespace={world.instance}")).status == 204
        await second.services.sweeper.sweep()
        replay = await second.post(POOLS, body)
        assert (replay.status, replay.data["deleted"]) == (200, True)
    assert (await world.client.list(Query(STOCK_POOLS, world.instance))).items == []


@mutant(
    "service/operations/object_executor.py",
    "                if made is not None and current.status.objects[0].uid != made.metadata.uid:\n",
    "                if made is None:\n",
)
async def test_a_replica_that_wakes_up_after_its_pool_was_deleted_leaves_no_second_one(
    world: Places, fault_proxy: FaultProxy
) -> None:
    body = pool_request(namespace=world.instance)
    async with world.api(fault_proxy.server) as one, world.api() as two:
        held = fault_proxy.on(creates("stockpools"), times=1).hold()
        asked = asyncio.create_task(one.post(POOLS, body))
        await held.arrived()
        assert (await two.post(POOLS, body)).status == 200
        assert (await two.delete(f"{POOLS}/{body['name']}?namespace={world.instance}")).status == 204
        held.release()
        late = await asked
        assert (late.status, late.data["status"]) == (202, "succeeded")
    assert (await world.client.list(Query(STOCK_POOLS, world.instance))).items == []


@mutant(
    "service/stock/batch_executor.py",
    "            if current is None or current.metadata.uid != record.metadata.uid:\n                return current\n",
    "            if current is None or current.metadata.uid != record.metadata.uid:\n                return record\n",
)
async def test_a_replay_whose_record_is_removed_while_it_waits_begins_anew(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as one, world.api() as two:
        held = fault_proxy.on(creates("gpuunits").in_namespace(world.stock)).hold()
        assert (await one.post(PATH, BODY)).status == 202
        await held.arrived(3)
        replay = asyncio.create_task(two.post(PATH, BODY))
        (record,) = (await world.client.list(Query(OPERATIONS, world.system))).items
        await eventually(lambda: two.services.stock._executor._waiter._waiting, what="the replay waits for the first")
        await world.client.delete(OPERATIONS, record.metadata.key, uid=record.metadata.uid)
        assert (await replay).status == 202
        assert (await two.get("/operator/jobs/seed")).status == 200
        await succeeded(two)
        held.release()

        async def all_listed() -> bool:
            (again,) = (await world.client.list(Query(OPERATIONS, world.system))).items
            there = {unit.metadata.uid for unit in await world.units(world.stock)}
            answered = [each for each in fault_proxy.calls(creates("gpuunits")) if each.done]
            return len(answered) == 3 and there == set(again.status.units)

        await eventually(all_listed, what="only units of the new record are there")


async def quota(world: Places, namespace: str, plural: str, hard: int) -> None:
    """A quota that is exactly filled, and refuses."""
    name = f"count/{plural}.runtime.lokiwager.io"
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}}
    made["spec"] = {"hard": {name: str(hard)}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await world.client.request("POST", path, body=made, subject="create quota")
    made["status"] = {"hard": {name: str(hard)}, "used": {name: str(hard)}}
    resource = GPU_UNITS if plural == "gpuunits" else STOCK_POOLS
    kind = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "probe"}}
    probe = {**kind, "spec": {"specName": "probe", **({"replicas": 0} if plural == "stockpools" else {})}}

    async def refuses() -> bool:
        await world.client.request("PUT", f"{path}/full/status", body=made, subject="count quota")
        where, dry = resource.path(namespace), {"dryRun": "All"}
        try:
            await world.client.request("POST", where, parameters=dry, body=probe, subject="probe")
        except Forbidden as error:
            return "exceeded quota" in error.message
        except ApiError:
            return False
        return False

    await eventually(refuses, what="the quota refuses")


@mutant("service/stock/seeding_queue.py", "group.create_task(self._put_back(batch))", "await self._put_back(batch)")
async def test_batches_that_fail_for_ever_do_not_keep_others_from_being_seeded(
    world: Places, fault_proxy: FaultProxy
) -> None:
    refused = creates("gpuunits").where(lambda call: call.body["spec"]["specName"].startswith("bad"))
    async with world.api(fault_proxy.server) as api:
        broken = fault_proxy.on(refused).answer(500)
        for number in range(WORKERS + 1):
            body = {**BODY, "operationID": f"bad-{number}", "specName": f"bad.{number}"}
            assert (await api.post(PATH, body)).status == 202
        await fault_proxy.seen(refused, times=30)  # each has been tried, and waits longer and longer
        for number in range(3):
            body = {**BODY, "operationID": f"good-{number}", "specName": f"good.{number}"}
            assert (await api.post(PATH, body)).status == 202
            await succeeded(api, f"good-{number}")
        broken.remove()
        for number in range(WORKERS + 1):
            await succeeded(api, f"bad-{number}")
    assert len(await world.units(world.stock)) == 3 * (WORKERS + 1 + 3)


@mutant(
    "service/stock/seeding_queue.py",
    "                self._known.discard(batch.record.metadata.uid)\n",
    "                pass\n",
)
async def test_a_batch_that_was_refused_goes_on_in_the_same_process_when_it_is_asked_for_again(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        refused = fault_proxy.on(creates("gpuunits").in_namespace(world.stock)).answer(403, reason="Forbidden")
        assert (await api.post(PATH, BODY)).status == 202

        async def failed() -> bool:
            return bool((await api.get("/operator/jobs/seed")).data["status"] == "failed")

        await eventually(failed, what="the job fails")
        refused.remove()
        assert (await api.post(PATH, BODY)).status == 200
        await succeeded(api)
    assert len(await world.units(world.stock)) == 3
