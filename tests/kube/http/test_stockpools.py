"""Stock pools over HTTP, on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter

from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Query
from gpu_runtime.service.cluster import OPERATIONS, STOCK_POOLS
from kube.http.api import Api, Places, pool_request


async def test_the_first_request_is_accepted_its_replay_answered_and_another_payload_refused(
    api: Api, world: Places
) -> None:
    body = pool_request("stock-g1-demo-001", namespace=world.instance)
    first = await api.post("/operator/stockpools", body)
    again = await api.post("/operator/stockpools", body)
    other = await api.post(
        "/operator/stockpools", {"operationID": "stock-g1-demo-001", "specName": "g2.1", "replicas": 1}
    )
    assert (first.status, again.status, other.status) == (202, 200, 409)
    assert first.data["operationID"] == again.data["operationID"] == "stock-g1-demo-001"
    assert other.code == "operation_conflict"
    job = await api.get("/operator/jobs/stock-g1-demo-001")
    assert job.data["status"] == "succeeded"
    assert job.data["objectName"] == "pool-g1-demo"
    pool = await world.client.get(STOCK_POOLS, Key(world.instance, "pool-g1-demo"))
    assert pool.metadata.annotations["runtime.lokiwager.io/operation-id"] == "stock-g1-demo-001"
    assert pool.spec.template.args == ["-m", "http.server", "8080"]


async def test_another_spelling_of_the_same_request_is_a_replay(api: Api, world: Places) -> None:
    first = await api.post("/operator/stockpools", pool_request(namespace=world.instance, memory="1Gi"))
    body = {
        **dict(reversed(pool_request(namespace=world.instance, memory="1024Mi").items())),
        "image": "python:3.12-slim",
    }
    again = await api.post("/operator/stockpools", body)
    assert (first.status, again.status) == (202, 200)


async def test_a_request_without_a_name_gets_the_name_of_its_operation(api: Api, world: Places) -> None:
    body = pool_request(namespace=world.instance)
    del body["name"]
    first = await api.post("/operator/stockpools", body)
    again = await api.post("/operator/stockpools", body)
    assert first.data["objectName"] == again.data["objectName"]
    assert first.data["objectName"].startswith("pool-g1-1-")


async def test_a_pool_that_another_request_made_is_not_taken_over_and_the_id_stays_free(
    api: Api, world: Places
) -> None:
    await api.post("/operator/stockpools", pool_request("one", namespace=world.instance))
    clash = await api.post("/operator/stockpools", pool_request("two", namespace=world.instance))
    assert (clash.status, clash.code) == (409, "already_exists")
    cured = await api.post("/operator/stockpools", pool_request("two", "other-name", namespace=world.instance))
    assert cured.status == 202


async def test_after_its_pool_was_deleted_a_replay_makes_nothing_and_says_so(api: Api, world: Places) -> None:
    body = pool_request(namespace=world.instance)
    await api.post("/operator/stockpools", body)
    where = f"/operator/stockpools/pool-g1-demo?namespace={world.instance}"
    assert (await api.delete(where)).status == 204
    assert (await api.delete(where)).code == "stockpool_not_found"
    replay = await api.post("/operator/stockpools", body)
    assert (replay.status, replay.data["deleted"]) == (200, True)
    assert (await world.client.list(Query(STOCK_POOLS, world.instance))).items == []


async def test_fifty_parallel_requests_with_one_id_on_two_replicas_have_one_effect(world: Places) -> None:
    body = pool_request(namespace=world.instance)
    async with world.api() as one, world.api() as two:
        answers = await asyncio.gather(*((one, two)[n % 2].post("/operator/stockpools", body) for n in range(50)))
    assert Counter(answer.status for answer in answers) == {202: 1, 200: 49}
    assert len({(answer.data["objectName"], answer.data["createdAt"]) for answer in answers}) == 1
    assert len((await world.client.list(Query(STOCK_POOLS, world.instance))).items) == 1
    assert len((await world.client.list(Query(OPERATIONS, world.system))).items) == 1


async def test_what_one_replica_accepted_the_other_knows_at_once(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        for number in range(20):
            body = pool_request(f"op-{number}", f"pool-{number}", namespace=world.instance)
            assert (await one.post("/operator/stockpools", body)).status == 202
            assert (await two.get(f"/operator/jobs/op-{number}")).status == 200
            assert (await two.get(f"/operator/stockpools/pool-{number}?namespace={world.instance}")).status == 200


async def test_lists_come_in_pages_and_can_be_filtered(api: Api, world: Places) -> None:
    for number in range(5):
        spec = "g1.1" if number % 2 else "g2.1"
        await api.post(
            "/operator/stockpools",
            pool_request(f"op-{number}", f"pool-{number}", namespace=world.instance, specName=spec),
        )

    async def all_listed() -> bool:
        return len((await api.get(f"/operator/stockpools?namespace={world.instance}")).data) == 5

    await eventually(all_listed, what="the list shows all pools")  # lists come from a cache
    seen, token = [], ""
    while True:
        more = f"&continue={token}" if token else ""
        page = await api.get(f"/operator/stockpools?namespace={world.instance}&limit=2{more}")
        seen += [pool["name"] for pool in page.data]
        token = page.body.get("continue", "")
        if not token:
            break
    assert seen == [f"pool-{number}" for number in range(5)]
    selected = await api.get(
        f"/operator/stockpools?namespace={world.instance}",
        params={"labelSelector": "runtime.lokiwager.io/spec-name=g2.1"},
    )
    assert [pool["name"] for pool in selected.data] == ["pool-0", "pool-2", "pool-4"]
    jobs = await api.get("/operator/jobs?limit=3")
    assert len(jobs.data) == 3
    assert jobs.body["continue"]
