"""API and reconcilers together, on a real control plane with nodes that run pods: from request to Ready."""

from __future__ import annotations

import json
from typing import Any

from equipment.fault_proxy import FaultProxy
from equipment.judge import conservation, list_objects
from equipment.waiting import eventually
from kube.controllers.world import World
from kube.http.api import Api, Places, pool_request, unit_request

CHILDREN = ("/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/services", "/api/v1/namespaces/{}/pods")


def reconcilers(world: Places, proxy: FaultProxy) -> World:
    return World(world.server, world.client, proxy, world.instance, world.stock, world.system)


async def until(api: Api, path: str, phase: str) -> Any:
    async def there() -> Any:
        answer = await api.get(path)
        return answer.data if answer.status == 200 and answer.data.get("phase") == phase else None

    return await eventually(there, what=f"{path} is {phase}")


async def test_a_pool_becomes_a_deployment_and_a_service(world: Places, fault_proxy: FaultProxy) -> None:
    async with reconcilers(world, fault_proxy).reconciling(), world.api() as api:
        body = pool_request("stock-g1-demo-001", namespace=world.instance, replicas=1)
        assert (await api.post("/operator/stockpools", body)).status == 202
        pool = await until(api, f"/operator/stockpools/pool-g1-demo?namespace={world.instance}", "Ready")
        assert pool["serviceName"] == "pool-pool-g1-demo"
        children = await list_objects(world.server, *(path.format(world.instance) for path in CHILDREN[:2]))
        assert {(each["kind"], each["metadata"]["name"]) for each in children} == {
            ("Deployment", "pool-pool-g1-demo"),
            ("Service", "pool-pool-g1-demo"),
        }


async def test_a_request_turns_warm_stock_into_a_running_unit_on_its_node(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.witnessed() as witness, reconcilers(world, fault_proxy).reconciling(), world.api() as api:
        seed = {"operationID": "stock-g1-demo-001", "specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": 2}
        assert (await api.post("/operator/stock-units", seed)).status == 202

        async def both_ready() -> Any:
            listed = (await api.get("/operator/stock-units?phase=Ready")).data
            return listed if len(listed) == 2 else None

        stock = {unit["name"]: unit for unit in await eventually(both_ready, what="two Ready stock units")}
        assert not any("serviceName" in unit or "accessURL" in unit for unit in stock.values())
        made = await api.post("/gpu-units", unit_request())
        assert made.status == 201
        unit = await until(api, "/gpu-units/demo", "Ready")
        source = unit["sourceStockName"]
        assert unit["nodeName"] == stock[source]["nodeName"]
        assert (unit["memory"], unit["gpu"]) == ("16Gi", 1)
        assert unit["serviceName"] == "demo"
        assert unit["accessURL"].startswith("http://demo.")

        async def one_left() -> bool:
            listed = (await api.get("/operator/stock-units")).data
            assert [left["name"] for left in listed] == [name for name in stock if name != source]
            inventory = (await api.get("/operator/inventory")).data
            return any(spec["specName"] == "g1.1" and spec["handOverNow"] == 1 for spec in inventory["specs"])

        await eventually(one_left, what="the lists show the stock that is left")

        async def told() -> bool:
            return bool((await api.get("/gpu-units/demo/events")).data)

        await eventually(told, what="the controller tells what it did")
        changed = await api.put("/gpu-units/demo", {"image": "python:3.13"})
        assert (changed.data["image"], changed.data["phase"]) == ("python:3.13", "Progressing")
        unit = await until(api, "/gpu-units/demo", "Ready")
        assert unit["observedGeneration"] == unit["generation"] == 2
        seen = await world.seen(witness)
        assert conservation(seen, seeded=2, stock_namespace=world.stock) == []
        assert (await api.delete("/gpu-units/demo")).status == 204

        async def gone() -> bool:
            return not await list_objects(world.server, CHILDREN[2].format(world.instance))

        await eventually(gone, what="the unit's pod is gone")


async def test_an_update_is_streamed_to_whoever_waits_for_it(world: Places, fault_proxy: FaultProxy) -> None:
    async with reconcilers(world, fault_proxy).reconciling(), world.api() as api:
        seed = {"operationID": "s", "specName": "g1.1", "gpu": 1, "replicas": 1}
        await api.post("/operator/stock-units", seed)

        async def ready() -> bool:
            return len((await api.get("/operator/stock-units?phase=Ready")).data) == 1

        await eventually(ready, what="Ready stock")
        await api.post("/gpu-units", unit_request())
        phases = []
        async with api.session.get(f"{api.url}/api/v1/gpu-units/demo?watch=true") as stream:
            async for line in stream.content:
                if line.startswith(b"data: ") and (phase := json.loads(line[6:]).get("phase")):
                    phases.append(phase)
                    if phase == "Ready":
                        break
        assert phases[-1] == "Ready"
