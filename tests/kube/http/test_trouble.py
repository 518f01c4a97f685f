"""The cluster in trouble: never a 500, never a lost or pinned operation."""

from __future__ import annotations

import pytest

from equipment.fault_proxy import FaultProxy, calls, creates, deletes, patches, updates, writes
from equipment.judge import conservation, count_stock, orphans
from equipment.waiting import eventually
from gpu_runtime.kube import Query
from gpu_runtime.service.cluster import OPERATIONS
from kube.http.api import Places, pool_request, unit_request


async def test_while_kubernetes_is_away_the_answer_is_503_and_the_same_id_succeeds_later(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        await world.seed(api, 1)
        down = fault_proxy.on(calls()).drop_request()
        bodies = (
            ("/operator/stockpools", pool_request(namespace=world.instance), 202),
            ("/operator/stock-units", {"operationID": "s", "specName": "g9", "replicas": 1}, 202),
            ("/gpu-units", unit_request(), 201),
        )
        for path, body, _ in bodies:
            answer = await api.post(path, body)
            assert (answer.status, answer.code) == (503, "service_unavailable"), answer
            assert int(answer.headers["Retry-After"]) > 0
        for path in ("/gpu-units/nobody", "/operator/jobs/nobody", "/operator/jobs"):
            assert (await api.get(path)).status == 503, path
        health = await api.get("/health")
        assert health.status == 200
        assert (await api.get("/gpu-units")).status == 200  # what is known is still told
        down.remove()
        for path, body, status in bodies:
            assert (await api.post(path, body)).status == status, path


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_every_trouble_of_the_server_is_a_503_with_its_time(
    world: Places, fault_proxy: FaultProxy, status: int
) -> None:
    async with world.api(fault_proxy.server) as api:
        await world.seed(api, 1)
        trouble = fault_proxy.on(writes()).answer(status, headers={"Retry-After": "7"})
        answer = await api.post("/gpu-units", unit_request())
        assert (answer.status, answer.headers["Retry-After"]) == (503, "7"), answer
        trouble.remove()
        assert (await api.post("/gpu-units", unit_request())).status in (200, 201)


@pytest.mark.parametrize("fault", ["request", "response"])
async def test_a_write_of_the_hand_over_lost_either_way_is_cured_by_sending_it_again(
    world: Places, fault_proxy: FaultProxy, fault: str
) -> None:
    """Every write of the hand-over once, first seen by nobody, then done with nobody told."""
    lost = [
        creates("operations"),
        patches("gpuunits").in_namespace(world.stock),
        creates("gpuunits").in_namespace(world.instance),
        updates("operations"),
        patches("gpuunits").in_namespace(world.instance),
        deletes("gpuunits").in_namespace(world.stock),
    ]
    async with world.witnessed() as witness, world.api(fault_proxy.server) as api:
        await world.seed(api, len(lost))
        for number, call in enumerate(lost):
            body = unit_request(f"op-{number}", f"unit-{number}")
            script = fault_proxy.on(call, times=1)
            _ = script.drop_request() if fault == "request" else script.drop_response()
            first = await api.post("/gpu-units", body)
            assert first.status in (201, 503), (call, first)  # the transport sends what is safe to repeat once more
            again = await api.post("/gpu-units", body)
            assert again.status in (200, 201), (call, again)
        await world.known(api)
        await api.services.sweeper.sweep()
        assert await world.free_stock() == []
        seen = await world.seen(witness)
        assert conservation(seen, seeded=len(lost), stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == len(lost)
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def test_a_quota_that_is_reached_is_a_lack_of_capacity_and_leaves_nothing(world: Places) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    limit = {**quota, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    path = f"/api/v1/namespaces/{world.instance}/resourcequotas"
    async with world.api() as api:
        await world.seed(api, 1)
        await world.client.request("POST", path, body=limit, subject="create quota")
        counted = {**limit, "status": {"hard": limit["spec"]["hard"], "used": limit["spec"]["hard"]}}  # type: ignore[index]
        await world.client.request("PUT", f"{path}/none/status", body=counted, subject="count quota")

        async def refused() -> bool:
            answer = await api.post("/gpu-units", unit_request())
            assert answer.status in (409, 503), answer  # 503 until the new quota has been counted
            return answer.code == "insufficient_capacity"

        await eventually(refused, what="the quota refuses")
        assert len(await world.free_stock()) == 1
        kinds = [record.spec.type for record in (await world.client.list(Query(OPERATIONS, world.system))).items]
        assert kinds == ["CreateStockUnits"]
        await world.client.request("DELETE", f"{path}/none", subject="delete quota")
        await world.known(api)

        async def made() -> bool:
            return (await api.post("/gpu-units", unit_request())).status == 201

        await eventually(made, what="the quota is gone and the unit is made")
