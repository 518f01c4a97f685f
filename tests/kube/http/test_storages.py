"""Storages over HTTP, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy, calls, creates, deletes, watches, writes
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.kube import Query
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.service.cluster import GPU_STORAGES, OPERATIONS
from gpu_runtime.service.storages.storage_class import STORAGE_CLASSES
from kube.http.api import Answer, Api, Places
from kube.http.test_units import events

PATH = "/gpu-storages"
DATA = f"{PATH}/data"


def storage_request(**more: Any) -> dict[str, Any]:
    return {"name": "data", "size": "20Gi", **more}


async def stored(world: Places, name: str = "data") -> GPUStorage:
    return await world.client.get(GPU_STORAGES, Key(world.instance, name))


async def report(world: Places, name: str = "data", **status: Any) -> None:
    """What the controller would report."""
    generation = (await stored(world, name)).metadata.generation
    reported = {"observedGeneration": generation, "phase": "Ready", "capacity": "20Gi", "mountable": True, **status}
    await world.client.patch(GPU_STORAGES, Key(world.instance, name), {"status": reported}, subresource="status")


async def reserve(world: Places, holder: Attachment, name: str = "data") -> None:
    patch = {"metadata": {"annotations": attached_to(holder)}}
    await world.client.patch(GPU_STORAGES, Key(world.instance, name), patch)


@asynccontextmanager
async def a_class(world: Places, *, expands: bool) -> AsyncIterator[str]:
    """A storage class of this test alone."""
    name = f"{'grows' if expands else 'fixed'}-{world.instance}"
    made = {"provisioner": "test.example/none", "allowVolumeExpansion": expands}
    await world.client.create(STORAGE_CLASSES, {"metadata": {"name": name}, **made})
    try:
        yield name
    finally:
        await world.client.delete(STORAGE_CLASSES, Key("", name))


async def test_a_storage_is_created_read_listed_and_deleted(api: Api, world: Places) -> None:
    made = await api.post(PATH, storage_request())
    assert made.status == 201
    assert made.data | {"name": "data", "namespace": world.instance, "size": "20Gi", "phase": "Pending"} == made.data
    assert made.data["storageClassName"] == "rook-ceph-block"
    assert made.headers["ETag"] == f'"{made.data["resourceVersion"]}"'
    await report(world, claimName="data")
    reserved = Attachment(unit="demo", uid="u")
    await reserve(world, reserved)

    async def shown() -> bool:
        view = (await api.get(DATA)).data
        return (view["phase"], view.get("attachedTo"), view.get("claimName")) == ("Ready", {"unit": "demo"}, "data")

    await eventually(shown, what="the view follows the storage")
    listed = await api.get(f"{PATH}?phase=Ready")
    assert [each["name"] for each in listed.data] == ["data"]
    in_use = await api.delete(DATA)
    assert (in_use.status, in_use.code) == (409, "storage_in_use")
    assert "unit demo" in in_use.message
    await world.client.patch(
        GPU_STORAGES, Key(world.instance, "data"), {"metadata": {"annotations": dict.fromkeys(attached_to(reserved))}}
    )
    assert (await api.delete(DATA)).status == 204
    assert (await api.get(DATA)).code == "gpu_storage_not_found"
    assert (await api.delete(DATA)).code == "gpu_storage_not_found"


async def test_a_create_is_one_write_and_needs_no_read(world: Places, fault_proxy: FaultProxy) -> None:
    async with world.api(fault_proxy.server) as api:
        mark = fault_proxy.mark()
        assert (await api.post(PATH, storage_request())).status == 201
        asked = [each.call.verb for each in fault_proxy.calls(calls() & ~watches(), since=mark)]
        assert asked == ["create"]


async def test_a_create_is_idempotent_by_its_name(api: Api, world: Places) -> None:
    first = await api.post(PATH, storage_request())
    again = await api.post(PATH, storage_request(size="20480Mi", accessor={}))
    other = await api.post(PATH, storage_request(size="21Gi"))
    assert (first.status, again.status, other.status) == (201, 200, 409)
    assert again.data == first.data
    assert other.code == "already_exists"
    assert "size is 20Gi, not 21Gi" in other.message
    assert (await world.client.list(Query(OPERATIONS, world.system))).items == []


async def test_fifty_parallel_creates_of_one_name_on_two_replicas_have_one_effect(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        answers = await asyncio.gather(*((one, two)[n % 2].post(PATH, storage_request()) for n in range(50)))
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 49}
    assert len({answer.data["resourceVersion"] for answer in answers}) == 1


@pytest.mark.parametrize("operation", [{}, {"operationID": "op-1"}])
async def test_a_create_whose_answer_was_lost_is_answered_by_its_replay(
    world: Places, fault_proxy: FaultProxy, operation: dict[str, str]
) -> None:
    async with world.api(fault_proxy.server) as api:
        fault_proxy.on(creates("gpustorages"), times=1).drop_response()
        assert (await api.post(PATH, storage_request(**operation))).status == 503
        assert (await api.post(PATH, storage_request(**operation))).status == 200
    assert len((await world.client.list(Query(GPU_STORAGES, world.instance))).items) == 1


async def test_an_operation_id_is_replayed_and_kept_after_a_deletion(api: Api, world: Places) -> None:
    body = storage_request(operationID="op-1")
    first, again = await api.post(PATH, body), await api.post(PATH, body)
    assert (first.status, again.status) == (201, 200)
    assert (await api.post(PATH, {**body, "size": "21Gi"})).code == "operation_conflict"
    job = (await api.get("/operator/jobs/op-1")).data
    assert (job["type"], job["status"], job["objectName"]) == ("create_gpu_storage", "succeeded", "data")
    assert (await api.delete(DATA)).status == 204
    gone = await api.post(PATH, body)
    assert (gone.status, gone.data["deleted"]) == (200, True)
    assert (await world.client.list(Query(GPU_STORAGES, world.instance))).items == []


async def test_a_storage_with_a_finalizer_is_being_deleted_and_its_name_not_free(api: Api, world: Places) -> None:
    await api.post(PATH, storage_request())
    held = {"metadata": {"finalizers": ["test.example/held"]}}
    await world.client.patch(GPU_STORAGES, Key(world.instance, "data"), held)
    assert (await api.delete(DATA)).status == 204
    assert (await api.delete(DATA)).status == 204
    assert (await api.get(DATA)).data["deletingSince"]
    taken = await api.post(PATH, storage_request())
    assert (taken.status, taken.code) == (409, "already_exists")
    assert "is being deleted" in taken.message
    assert (await api.put(DATA, {"accessor": {"enabled": True}})).status == 409
    await world.client.patch(GPU_STORAGES, Key(world.instance, "data"), {"metadata": {"finalizers": None}})
    assert (await api.post(PATH, storage_request())).status == 201


async def test_a_unit_that_reserves_the_storage_during_its_deletion_keeps_it(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        await api.post(PATH, storage_request())
        held = fault_proxy.on(deletes("gpustorages"), times=1).hold()
        asked = asyncio.create_task(api.delete(DATA))
        await held.arrived()
        await reserve(world, Attachment(unit="demo", uid="u"))
        held.release()
        answer = await asked
    assert (answer.status, answer.code) == (409, "storage_in_use")
    assert (await stored(world)).metadata.deletionTimestamp is None


async def test_a_storage_grows_where_its_class_can_and_never_shrinks(api: Api, world: Places) -> None:
    async with a_class(world, expands=True) as grows, a_class(world, expands=False) as fixed:
        await api.post(PATH, storage_request(storageClassName=grows))
        await api.post(PATH, storage_request(name="fixed", storageClassName=fixed))
        await api.post(PATH, storage_request(name="lost", storageClassName="no-such-class"))
        grown = await api.put(DATA, {"size": "40Gi"})
        assert (grown.status, grown.data["size"], grown.data["phase"]) == (200, "40Gi", "Pending")
        smaller = await api.put(DATA, {"size": "20Gi"})
        assert (smaller.status, smaller.fields) == (400, {"size"})
        assert "20Gi is smaller than 40Gi" in smaller.message
        for name, words in (("fixed", "does not allow it"), ("lost", "does not exist")):
            refused = await api.put(f"{PATH}/{name}", {"size": "40Gi"})
            assert (refused.status, words in refused.message) == (409, True), refused
            assert (await stored(world, name)).spec.size == "20Gi"


async def test_if_match_and_conflicting_writers(api: Api, world: Places) -> None:
    made = await api.post(PATH, storage_request())
    await report(world)
    turned_on = {"accessor": {"enabled": True}}
    old = await api.put(DATA, turned_on, headers={"If-Match": made.headers["ETag"]})
    assert (old.status, old.code) == (409, "conflict")
    assert (await api.put(DATA, turned_on)).data["accessor"] == {"enabled": True, "phase": "Pending"}
    assert "accessor" not in (await api.put(DATA, {"accessor": None})).data
    assert (await api.put(DATA, {"storageClassName": "other"})).fields == {"storageClassName"}
    assert (await api.delete(DATA, headers={"If-Match": made.headers["ETag"]})).status == 409


async def test_a_copy_needs_a_source_in_the_same_namespace_that_is_ready_and_free(api: Api, world: Places) -> None:
    body = storage_request(name="copy", prepare={"fromStorageName": "data"})
    absent = await api.post(PATH, body)
    assert (absent.status, absent.code) == (404, "gpu_storage_not_found")
    assert "storage data" in absent.message
    await api.post(PATH, storage_request())
    unready = await api.post(PATH, body)
    assert (unready.status, unready.code) == (409, "conflict")
    await report(world)
    await reserve(world, Attachment(unit="demo", uid="u"))
    in_use = await api.post(PATH, body)
    assert (in_use.status, in_use.code) == (409, "storage_in_use")
    await reserve(world, Attachment(storage="another", uid="u"))
    assert (await api.post(PATH, body)).status == 201
    await world.client.delete(GPU_STORAGES, Key(world.instance, "data"))
    assert (await api.post(PATH, body)).status == 200


async def recover(api: Api, **options: Any) -> Answer:
    return await api.call("POST", f"{DATA}/recover", **options)


async def test_a_failed_prepare_is_recovered_and_nothing_else_is(api: Api, world: Places) -> None:
    prepare = {"fromImage": "alpine", "command": ["wget"], "args": ["-O", "/workspace/model"]}
    assert (await api.post(PATH, storage_request(prepare=prepare))).status == 201
    assert (await recover(api)).status == 409
    digest = prepare_digest(await stored(world))
    await report(world, phase="Pending", prepare={"phase": "Running", "observedDigest": digest})
    assert "is being filled" in (await recover(api)).message
    failed = {"phase": "Failed", "observedDigest": digest, "recoveryPhase": "Required", "message": "exit code 4"}
    await report(world, phase="Failed", prepare=failed)
    elsewhere = await recover(api, headers={"Origin": "http://elsewhere.example"})
    assert (elsewhere.status, elsewhere.code) == (403, "forbidden")
    assert STORAGE_RECOVERY_NONCE not in (await stored(world)).metadata.annotations
    answers = await asyncio.gather(*(recover(api, headers={"Origin": api.url}) for _ in range(5)))
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 4}
    (done,) = (answer for answer in answers if answer.status == 200)
    assert (done.data["prepare"]["phase"], done.data["prepare"]["recoveryPhase"]) == ("Pending", "Running")
    assert prepare_digest(await stored(world)) != digest


async def test_a_watch_tells_each_change_of_a_storage(api: Api, world: Places) -> None:
    await api.post(PATH, storage_request())
    url = f"{api.url}/api/v1{PATH}?watch=true&timeoutSeconds=600"
    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(240), api.session.get(url) as stream:
        assert stream.content_type == "text/event-stream"
        async for event in events(stream):
            seen.append((event["event"], json.loads(event["data"]).get("phase", "")))
            if seen[-1][0] == "bookmark":
                await report(world)
            elif seen[-1] == ("modified", "Ready"):
                await world.client.delete(GPU_STORAGES, Key(world.instance, "data"))
            elif seen[-1][0] == "deleted":
                break
    assert seen == [("added", "Pending"), ("bookmark", ""), ("modified", "Ready"), ("deleted", "Ready")]
    with pytest.raises(NotFound):
        await stored(world)


async def test_a_list_comes_in_pages_and_can_be_filtered(api: Api, world: Places) -> None:
    for number in range(5):
        await api.post(PATH, storage_request(name=f"data-{number}"))

    async def all_listed() -> bool:
        return len((await api.get(PATH)).data) == 5

    await eventually(all_listed, what="the list shows all storages")
    first = await api.get(f"{PATH}?limit=3")
    rest = await api.get(f"{PATH}?limit=3&continue={first.body['continue']}")
    assert [each["name"] for each in (*first.data, *rest.data)] == [f"data-{number}" for number in range(5)]
    assert (await api.get(f"{PATH}?phase=Ready")).data == []
    named = await api.get(PATH, params={"labelSelector": "app.kubernetes.io/name=gpu-runtime-storage"})
    assert len(named.data) == 5


async def test_a_refused_change_writes_nothing(world: Places, fault_proxy: FaultProxy) -> None:
    async with world.api(fault_proxy.server) as api:
        await api.post(PATH, storage_request())
        mark = fault_proxy.mark()
        for body in ({"size": "1Gi"}, {"size": "0"}, {"size": "17Ti"}, {"size": "40Gi", "colour": "red"}):
            assert (await api.put(DATA, body)).status == 400, body
        assert (await recover(api)).status == 409
        assert (await api.post(PATH, storage_request(size="1Gi"))).status == 409
        assert fault_proxy.count(writes() & ~creates("gpustorages"), since=mark) == 0
