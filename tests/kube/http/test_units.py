"""Units over HTTP, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

from aiohttp import ClientResponse

from equipment.fault_proxy import FaultProxy, creates, updates
from equipment.judge import conservation, count_stock, one_effect, orphans
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Query
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from kube.http.api import Api, Places, unit_request

PATH = "/gpu-units"


async def test_a_request_consumes_one_ready_stock_unit_and_keeps_its_envelope(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    made = await api.post(PATH, unit_request())
    assert made.status == 201
    unit = await world.client.get(GPU_UNITS, Key(world.instance, "demo"))
    assert (unit.spec.memory, unit.spec.gpu, unit.spec.image) == ("1Gi", 1, "python:3.12")
    told = unit.metadata.annotations
    source = told["runtime.lokiwager.io/source-stock-name"]
    assert made.data["sourceStockName"] == source
    assert told["runtime.lokiwager.io/source-stock-namespace"] == world.stock
    assert told["runtime.lokiwager.io/source-stock-node"] == "fake-0"
    assert source not in [left.metadata.name for left in await world.free_stock()]
    again = await api.post(PATH, unit_request())
    assert (again.status, again.data["resourceVersion"]) == (200, unit.metadata.resourceVersion)
    assert (await api.post(PATH, unit_request(image="other"))).code == "operation_conflict"
    inventory = (await api.get("/operator/inventory")).data
    assert [spec["handOverNow"] for spec in inventory["specs"] if spec["specName"] == "g1.1"] != [0]


async def test_without_ready_stock_the_answer_names_the_spec_and_the_id_can_be_used_later(
    api: Api, world: Places
) -> None:
    refused = await api.post(PATH, unit_request())
    assert (refused.status, refused.code) == (409, "insufficient_capacity")
    assert "g1.1" in refused.message
    assert (await world.client.list(Query(OPERATIONS, world.system))).items == []
    await world.seed(api, 1)
    assert (await api.post(PATH, unit_request())).status == 201


async def test_stock_on_a_closed_node_is_not_handed_over(api: Api, world: Places) -> None:
    await world.seed(api, 1)
    (unit,) = await world.units(world.stock)
    await world.client.patch(GPU_UNITS, unit.metadata.key, {"status": {"nodeName": "gone"}}, subresource="status")
    await world.known(api)
    refused = await api.post(PATH, unit_request())
    assert "1 on a node that is down or cordoned" in refused.message


async def test_a_name_that_is_taken_is_refused_and_no_stock_is_lost(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    assert (await api.post(PATH, unit_request("one"))).status == 201
    clash = await api.post(PATH, unit_request("two"))
    assert (clash.status, clash.code) == (409, "already_exists")
    by_hand = {"metadata": {"namespace": world.instance, "name": "by-hand"}, "spec": {"specName": "g1.1"}}
    await world.client.create(GPU_UNITS, by_hand)
    clash = await api.post(PATH, unit_request("three", "by-hand"))
    assert clash.code == "already_exists"
    assert len(await world.free_stock()) == 1
    assert len((await world.client.list(Query(OPERATIONS, world.system))).items) == 2


async def test_a_deleted_unit_is_not_made_again_by_a_late_retry(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    await api.post(PATH, unit_request())
    assert (await api.delete(f"{PATH}/demo")).status == 204
    assert (await api.get(f"{PATH}/demo")).code == "gpu_unit_not_found"
    late = await api.post(PATH, unit_request())
    assert (late.status, late.data["deleted"]) == (200, True)
    assert len(await world.free_stock()) == 1


async def test_a_replay_waits_for_the_first_and_tells_of_the_same_unit(world: Places, fault_proxy: FaultProxy) -> None:
    async with world.api(fault_proxy.server) as one, world.api() as two:
        await world.seed(two, 2)
        await world.known(one)
        held = fault_proxy.on(updates("operations"), times=1).hold()
        first = asyncio.create_task(one.post(PATH, unit_request()))
        await held.arrived()
        replay = asyncio.create_task(two.post(PATH, unit_request()))
        await asyncio.wait((replay,), timeout=0.2)
        assert not replay.done()
        held.release()
        answers = [await first, await replay]
    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].data["sourceStockName"] == answers[1].data["sourceStockName"]
    assert len(await world.free_stock()) == 1


async def test_a_replay_goes_on_where_a_frozen_executor_stopped(world: Places, fault_proxy: FaultProxy) -> None:
    """Two live executors of one operation: the second finishes, the first wakes up and finds it done."""
    async with world.witnessed() as witness, world.api(fault_proxy.server) as one, world.api() as two:
        await world.seed(two, 3)
        await world.known(one)
        for number, call in enumerate((creates("gpuunits"), updates("operations"))):
            body = unit_request(f"op-{number}", f"unit-{number}")
            held = fault_proxy.on(call, times=1).hold()
            first = asyncio.create_task(one.post(PATH, body))
            await held.arrived()
            replay = await two.post(PATH, body)
            held.release()
            assert (replay.status, (await first).status) == (200, 201)
        await world.free_stock()
        seen = await world.seen(witness)
        assert conservation(seen, seeded=3, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == 2
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def test_racing_for_fewer_stock_units_leaves_no_double_owner_and_none_lost(world: Places) -> None:
    async with world.witnessed() as witness, world.api() as one, world.api() as two:
        await world.seed(one, 12)
        await world.known(two)
        answers = await asyncio.gather(
            *((one, two)[n % 2].post(PATH, unit_request(f"op-{n}", f"unit-{n}")) for n in range(40))
        )
        told = Counter(answer.status for answer in answers)
        assert told == {201: 12, 409: 28}, told
        assert {answer.code for answer in answers if answer.status == 409} == {"insufficient_capacity"}
        for api in (one, two):
            await api.services.sweeper.sweep()
        assert await world.free_stock() == []
        seen = await world.seen(witness)
        assert conservation(seen, seeded=12, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == 12
        assert one_effect(seen, stock_namespace=world.stock, expected={"seed": 12}) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def test_fifty_parallel_requests_with_one_id_on_two_replicas_make_one_unit(world: Places) -> None:
    async with world.witnessed() as witness, world.api() as one, world.api() as two:
        await world.seed(one, 10)
        await world.known(two)
        answers = await asyncio.gather(*((one, two)[n % 2].post(PATH, unit_request()) for n in range(50)))
        assert Counter(answer.status for answer in answers) == {201: 1, 200: 49}
        assert len({answer.data["sourceStockName"] for answer in answers}) == 1
        await one.services.sweeper.sweep()
        assert len(await world.free_stock()) == 9
        seen = await world.seen(witness)
        assert conservation(seen, seeded=10, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == 1


async def test_a_change_keeps_what_is_absent_clears_what_is_null_and_touches_no_envelope(
    api: Api, world: Places
) -> None:
    await world.seed(api, 1)
    made = await api.post(PATH, unit_request())
    changed = await api.put(f"{PATH}/demo", {"image": "python:3.13"}, headers={"If-Match": made.headers["ETag"]})
    assert (changed.status, changed.data["image"]) == (200, "python:3.13")
    assert changed.data["template"] == made.data["template"]
    assert (await api.get(f"{PATH}/demo")).data["image"] == "python:3.13"
    stale = await api.put(f"{PATH}/demo", {"image": "x"}, headers={"If-Match": made.headers["ETag"]})
    assert (stale.status, stale.code) == (409, "conflict")
    kept = await api.delete(f"{PATH}/demo", headers={"If-Match": made.headers["ETag"]})
    assert (kept.status, kept.code) == (409, "conflict")
    unfitting = await api.put(f"{PATH}/demo", {"template": None})
    assert unfitting.fields == {"access.primaryPort"}
    cleared = await api.put(f"{PATH}/demo", {"template": None, "access": None})
    assert "template" not in cleared.data
    envelope = await api.put(f"{PATH}/demo", {"memory": "2Gi", "gpu": 2})
    assert (envelope.status, envelope.fields) == (400, {"memory", "gpu"})
    assert "image" not in (await api.put(f"{PATH}/demo", {"image": None})).data
    assert (await api.put(f"{PATH}/other", {"image": "x"})).code == "gpu_unit_not_found"


async def test_a_changed_unit_is_not_called_ready_before_the_controller_acted_on_the_change(
    api: Api, world: Places
) -> None:
    await world.seed(api, 1)
    made = await api.post(PATH, unit_request())
    assert (made.data["phase"], made.data["generation"]) == ("Pending", 1)
    ready = {"type": "Ready", "status": "True", "reason": "UnitReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Ready", "observedGeneration": 1, "conditions": [ready]}
    await world.client.patch(GPU_UNITS, Key(world.instance, "demo"), {"status": status}, subresource="status")

    async def shown(phase: str) -> bool:
        return [unit["name"] for unit in (await api.get(f"{PATH}?phase={phase}")).data] == ["demo"]

    await eventually(lambda: shown("Ready"), what="the unit is Ready")
    changed = await api.put(f"{PATH}/demo", {"image": "python:3.13"})
    told = changed.data
    assert (told["phase"], told["reason"]) == ("Progressing", "AwaitingController")
    assert (told["generation"], told["observedGeneration"]) == (2, 1)
    assert (await api.get(f"{PATH}/demo")).data["phase"] == "Progressing"
    await eventually(lambda: shown("Progressing"), what="the list shows the same phase")
    assert not await shown("Ready")


async def test_changes_are_streamed_and_a_stream_can_be_resumed(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    await api.post(PATH, unit_request("one", "one"))
    url = f"{api.url}/api/v1{PATH}?watch=true&timeoutSeconds=60"
    async with api.session.get(url) as stream:
        kinds, version = [], ""
        async for event in events(stream):
            kinds.append((event["event"], json.loads(event["data"]).get("name")))
            version = event.get("id", version)
            if event["event"] == "bookmark":
                break
    assert kinds == [("added", "one"), ("bookmark", None)]
    await api.post(PATH, unit_request("two", "two"))
    await api.delete(f"{PATH}/one")
    async with api.session.get(url, headers={"Last-Event-ID": version}) as stream:
        seen = []
        async for event in events(stream):
            seen.append((event["event"], json.loads(event["data"]).get("name")))
            if seen[-1] == ("deleted", "one"):
                break
    assert seen == [("bookmark", None), ("added", "two"), ("modified", "two"), ("deleted", "one")]
    async with api.session.get(f"{api.url}/api/v1{PATH}/two?watch=true&timeoutSeconds=1") as stream:
        assert stream.content_type == "text/event-stream"
        assert [event["event"] async for event in events(stream)][:2] == ["added", "bookmark"]


async def events(stream: ClientResponse) -> AsyncIterator[dict[str, str]]:
    """Server-sent events as a browser would see them."""
    event: dict[str, str] = {}
    async for line in stream.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            event[name] = value
        elif event:
            yield event
            event = {}
