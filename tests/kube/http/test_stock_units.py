"""Seeding stock over HTTP, on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter

from equipment.fault_proxy import FaultProxy, creates
from equipment.waiting import eventually
from gpu_runtime.kube import Client, load_config
from gpu_runtime.service.cluster import GPU_UNITS
from kube.http.api import Api, Places

BODY = {"operationID": "seed", "specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": 2}
PATH = "/operator/stock-units"


async def succeeded(api: Api, operation_id: str = "seed") -> None:
    async def done() -> bool:
        return bool((await api.get(f"/operator/jobs/{operation_id}")).data["status"] == "succeeded")

    await eventually(done, what=f"job {operation_id} succeeds")


async def test_a_job_has_succeeded_when_all_units_are_persisted(api: Api, world: Places) -> None:
    first = await api.post(PATH, BODY)
    assert (first.status, first.data["type"]) == (202, "seed_stock_units")
    await succeeded(api)
    units = await world.units(world.stock)
    assert [unit.metadata.annotations["runtime.lokiwager.io/stock-ordinal"] for unit in units] == ["1", "2"]
    assert all(unit.metadata.name.startswith(first.data["objectName"]) for unit in units)
    assert {(unit.spec.specName, unit.spec.memory, unit.spec.gpu, unit.spec.image) for unit in units} == {
        ("g1.1", "16Gi", 1, None)
    }
    assert (await api.post(PATH, BODY)).status == 200
    assert (await api.post(PATH, {**BODY, "replicas": 3})).code == "operation_conflict"


async def test_ids_of_different_types_are_independent_and_the_newest_job_is_shown(api: Api, world: Places) -> None:
    pool = {"operationID": "seed", "specName": "g1.1", "replicas": 0, "namespace": world.instance}
    assert (await api.post("/operator/stockpools", pool)).status == 202
    assert (await api.post(PATH, BODY)).status == 202
    assert (await api.get("/operator/jobs/seed?type=create_stockpool")).data["type"] == "create_stockpool"
    assert (await api.get("/operator/jobs/seed")).data["type"] == "seed_stock_units"
    assert (await api.get("/operator/jobs/seed?type=create_gpu_unit")).code == "job_not_found"


async def test_one_spec_name_has_one_envelope(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        assert (await one.post(PATH, BODY)).status == 202
        await succeeded(one)
        other = await two.post(PATH, {**BODY, "operationID": "other", "memory": "8Gi"})
        assert (other.status, other.code) == (409, "spec_conflict")
        same = await two.post(PATH, {**BODY, "operationID": "same", "memory": "16384Mi"})
        assert same.status == 202
        assert (await two.get("/operator/jobs/other")).status == 404


async def test_two_envelopes_seeded_at_once_on_two_replicas_never_both_exist(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        for turn in range(10):
            spec = f"race.{turn}"
            answers = await asyncio.gather(
                one.post(PATH, {**BODY, "operationID": f"a-{turn}", "specName": spec, "memory": "1Gi"}),
                two.post(PATH, {**BODY, "operationID": f"b-{turn}", "specName": spec, "memory": "2Gi"}),
            )
            assert Counter(answer.status for answer in answers)[202] <= 1, answers
    envelopes: dict[str, set[str]] = {}
    for unit in await world.units(world.stock):
        envelopes.setdefault(unit.spec.specName, set()).add(unit.spec.memory)
    assert all(len(sizes) == 1 for sizes in envelopes.values()), envelopes


async def test_a_batch_that_its_process_left_is_finished_by_another_replica(
    world: Places, fault_proxy: FaultProxy
) -> None:
    body = {**BODY, "replicas": 30}
    async with world.api(fault_proxy.server) as first:
        kill = fault_proxy.kill_at(12, first.kill, "after", of=creates("gpuunits"))
        assert (await first.post(PATH, body)).status == 202
        await kill.happened()
    assert len(await world.units(world.stock)) < 30
    async with world.api() as second:
        await second.services.sweeper.sweep()
        await succeeded(second)
        assert len(await world.units(world.stock)) == 30
        assert (await second.post(PATH, body)).status == 200


async def test_stock_consumed_while_its_batch_was_interrupted_is_not_made_again(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as first:
        kill = fault_proxy.kill_at(55, first.kill, "after", of=creates("gpuunits"))
        await first.post(PATH, {**BODY, "replicas": 60})
        await kill.happened()
    async with world.api() as second:
        await world.make_ready()
        await world.known(second)
        unit = {"operationID": "u", "name": "u", "specName": "g1.1", "image": "a"}
        handed_over = await second.post("/gpu-units", unit)
        assert handed_over.status == 201
        await second.services.sweeper.sweep()
        await succeeded(second)
    names = {unit.metadata.name for unit in await world.free_stock()}
    assert len(names) == 59
    assert handed_over.data["sourceStockName"] not in names


async def test_fifty_parallel_requests_with_one_id_on_two_replicas_seed_once(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        answers = await asyncio.gather(*((one, two)[n % 2].post(PATH, BODY) for n in range(50)))
        assert {answer.status for answer in answers} <= {200, 202}
        await succeeded(one)
    assert len(await world.units(world.stock)) == 2


async def test_claimed_stock_cannot_be_taken_back_and_free_stock_can(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    one, two = [unit.metadata for unit in await world.units(world.stock)]
    claim = {"metadata": {"annotations": {"runtime.lokiwager.io/claimed-by": "somebody"}}}
    async with Client(load_config(world.server.kubeconfig)) as client:
        await client.patch(GPU_UNITS, one.key, claim)
    assert (await api.delete(f"{PATH}/{one.name}")).code == "conflict"
    assert (await api.delete(f"{PATH}/{two.name}")).status == 204
    assert (await api.delete(f"{PATH}/{two.name}")).code == "stock_unit_not_found"

    async def shown() -> bool:
        listed = await api.get(PATH)
        assert not any("serviceName" in unit or "accessURL" in unit for unit in listed.data)
        return [unit["name"] for unit in listed.data] == [one.name]

    await eventually(shown, what="the list shows what is left")
