"""Serverless functions over HTTP, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from equipment.fault_proxy import FaultProxy, creates, writes
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import PENDING_INVOCATIONS
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.kube import Query
from gpu_runtime.service.cluster import GPU_FUNCTIONS
from kube.http.api import Api, Places
from kube.http.test_units import events

PATH = "/serverless/functions"
ECHO = f"{PATH}/echo"
SOURCE = 'def main(payload):\n    return {"got": payload}\n'


def function_request(**more: Any) -> dict[str, Any]:
    return {
        "operationID": "fn-echo-001",
        "name": "echo",
        "unit": {"specName": "cpu.small", "memory": "256Mi", "gpu": 0},
        "handler": {"source": SOURCE, "entry": "main"},
        "concurrency": 4,
        "minWorkers": 0,
        "maxWorkers": 3,
        "idleTimeoutSeconds": 30,
        "invocationTimeoutSeconds": 60,
        "retry": {"maxAttempts": 3, "backoffSeconds": [1]},
        **more,
    }


async def stored(world: Places) -> GPUFunction:
    return await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))


async def report(world: Places, **status: Any) -> None:
    """What the activator would report."""
    generation = (await stored(world)).metadata.generation
    reported = {"observedGeneration": generation, **status}
    await world.client.patch(GPU_FUNCTIONS, Key(world.instance, "echo"), {"status": reported}, subresource="status")


async def test_a_function_is_created_read_listed_changed_and_deleted(api: Api, world: Places) -> None:
    made = await api.post(PATH, function_request())
    assert made.status == 201, made
    asked = {name: value for name, value in function_request().items() if name not in ("operationID", "unit")}
    assert made.data | asked | {"namespace": world.instance, "phase": "Pending", "queueLimit": 10000} == made.data
    assert made.headers["ETag"] == f'"{made.data["resourceVersion"]}"'
    await report(world, phase="Ready", workers=2, readyWorkers=1)

    async def shown() -> bool:
        view = (await api.get(ECHO)).data
        return (view["phase"], view["workers"], view["readyWorkers"]) == ("Ready", 2, 1)

    await eventually(shown, what="the view follows the function")
    (listed,) = (await api.get(f"{PATH}?phase=Ready")).data
    assert listed["handler"] == {"entry": "main"}
    assert (await api.get(ECHO)).data["handler"] == {"entry": "main", "source": SOURCE}
    changed = await api.put(ECHO, {"maxWorkers": 5, "idleTimeoutSeconds": None})
    assert (changed.status, changed.data["maxWorkers"], changed.data["idleTimeoutSeconds"]) == (200, 5, 300)
    assert (changed.data["concurrency"], changed.data["phase"]) == (4, "Progressing")
    assert (await api.put(ECHO, {"maxWorkers": 5})).data["resourceVersion"] == changed.data["resourceVersion"]
    assert (await api.delete(ECHO)).status == 204
    assert (await api.get(ECHO)).code == "gpu_function_not_found"
    assert (await api.delete(ECHO)).code == "gpu_function_not_found"


async def test_a_handler_is_replaced_by_an_image_and_back(api: Api, world: Places) -> None:
    await api.post(PATH, function_request())
    image = await api.put(ECHO, {"handler": None, "unit": {"specName": "cpu.small", "image": "framework:1"}})
    assert (image.status, image.data.get("handler"), image.data["unit"]["image"]) == (200, None, "framework:1")
    both = await api.put(ECHO, {"handler": {"source": SOURCE}})
    assert (both.status, both.fields) == (400, {"unit.image"})
    back = await api.put(ECHO, {"handler": {"source": SOURCE}, "unit": {"specName": "cpu.small"}})
    assert (back.status, back.data["unit"]) == (200, {"specName": "cpu.small"})


async def test_fifty_parallel_creates_on_two_replicas_make_one_function(world: Places) -> None:
    async with world.api() as one, world.api() as two:
        answers = await asyncio.gather(*((one, two)[n % 2].post(PATH, function_request()) for n in range(50)))
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 49}
    assert len((await world.client.list(Query(GPU_FUNCTIONS, world.instance))).items) == 1


async def test_a_create_whose_answer_was_lost_is_answered_by_its_replay(world: Places, fault_proxy: FaultProxy) -> None:
    async with world.api(fault_proxy.server) as api:
        fault_proxy.on(creates("gpufunctions"), times=1).drop_response()
        assert (await api.post(PATH, function_request())).status == 503
        assert (await api.post(PATH, function_request())).status == 200
    assert len((await world.client.list(Query(GPU_FUNCTIONS, world.instance))).items) == 1


async def test_an_operation_id_is_replayed_and_kept_after_a_deletion(api: Api, world: Places) -> None:
    first, again = await api.post(PATH, function_request()), await api.post(PATH, function_request())
    assert (first.status, again.status) == (201, 200)
    assert (await api.post(PATH, function_request(maxWorkers=9))).code == "operation_conflict"
    assert (await api.post(PATH, function_request(operationID="other"))).code == "already_exists"
    job = (await api.get("/operator/jobs/fn-echo-001")).data
    assert (job["type"], job["status"], job["objectName"]) == ("create_gpu_function", "succeeded", "echo")
    assert (await api.delete(ECHO)).status == 204
    gone = await api.post(PATH, function_request())
    assert (gone.status, gone.data["deleted"]) == (200, True)


async def test_a_deletion_waits_for_the_activator_and_can_be_told_to_cancel(api: Api, world: Places) -> None:
    await api.post(PATH, function_request())
    held = {"metadata": {"finalizers": ["test.example/held"]}}
    await world.client.patch(GPU_FUNCTIONS, Key(world.instance, "echo"), held)
    wishes = []
    for query in ("", "?pending=cancel", ""):
        assert (await api.delete(f"{ECHO}{query}")).status == 204
        wishes.append((await stored(world)).metadata.annotations[PENDING_INVOCATIONS])
    assert wishes == ["drain", "cancel", "cancel"]
    assert (await api.get(ECHO)).data["deletingSince"]
    assert (await api.put(ECHO, {"maxWorkers": 4})).status == 409
    assert "is being deleted" in (await api.post(PATH, function_request(operationID="next"))).message
    assert (await api.delete(f"{ECHO}?pending=wait")).fields == {"pending"}
    await world.client.patch(GPU_FUNCTIONS, Key(world.instance, "echo"), {"metadata": {"finalizers": None}})
    assert (await api.post(PATH, function_request(operationID="next"))).status == 201


async def test_if_match_names_the_version_that_is_changed_or_deleted(api: Api, world: Places) -> None:
    made = await api.post(PATH, function_request())
    await report(world, phase="Idle")
    old = {"If-Match": made.headers["ETag"]}
    assert (await api.put(ECHO, {"maxWorkers": 4}, headers=old)).code == "conflict"
    assert (await api.delete(ECHO, headers=old)).code == "conflict"
    now = await api.put(ECHO, {"maxWorkers": 4})
    assert (await api.delete(ECHO, headers={"If-Match": now.headers["ETag"]})).status == 204


async def test_a_watch_tells_each_change_without_the_source(api: Api, world: Places) -> None:
    await api.post(PATH, function_request())
    url = f"{api.url}/api/v1{PATH}?watch=true&timeoutSeconds=600"
    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(240), api.session.get(url) as stream:
        async for event in events(stream):
            view = json.loads(event["data"])
            seen.append((event["event"], view.get("phase", "")))
            assert "source" not in view.get("handler", {})
            if seen[-1][0] == "bookmark":
                await report(world, phase="Ready")
            elif seen[-1] == ("modified", "Ready"):
                await world.client.delete(GPU_FUNCTIONS, Key(world.instance, "echo"))
            elif seen[-1][0] == "deleted":
                break
    assert seen == [("added", "Pending"), ("bookmark", ""), ("modified", "Ready"), ("deleted", "Ready")]


async def test_a_refused_request_writes_nothing(world: Places, fault_proxy: FaultProxy) -> None:
    image = {"specName": "cpu.small", "image": "framework:1"}
    bad: dict[str, tuple[dict[str, Any], set[str]]] = {
        "a name that is too long": ({"name": "a" * 41}, {"name"}),
        "a name with a dot": ({"name": "a.b"}, {"name"}),
        "neither image nor handler": ({"handler": None}, {"unit.image"}),
        "image and handler": ({"unit": image}, {"unit.image"}),
        "a source that is not Python": ({"handler": {"source": "def main(:\n"}}, {"handler.source"}),
        "a source without its entry": ({"handler": {"source": SOURCE, "entry": "run"}}, {"handler.source"}),
        "a source that is too large": ({"handler": {"source": "#" * 262_145}}, {"handler.source"}),
        "no source": ({"handler": {"source": ""}}, {"handler.source"}),
        "too few workers": ({"minWorkers": 4}, {"minWorkers"}),
        "no workers": ({"maxWorkers": 0}, {"maxWorkers"}),
        "storages of workers": ({"unit": {**image, "storageMounts": []}}, {"unit.storageMounts"}),
        "a memory that is none": ({"unit": {"specName": "a", "memory": "1GB"}}, {"unit.memory"}),
        "an unknown field": ({"colour": "red"}, {"colour"}),
        "a socket elsewhere": ({"framework": {"socketPath": "/run/x"}}, {"framework.socketPath"}),
        "no operationID": ({"operationID": None}, {"operationID"}),
    }
    async with world.api(fault_proxy.server) as api:
        mark = fault_proxy.mark()
        for name, (fields, want) in bad.items():
            answer = await api.post(PATH, function_request(**fields))
            assert (answer.status, answer.fields) == (400, want), (name, answer)
        assert (await api.post(PATH, function_request(namespace=world.stock))).status == 403
        assert (await api.post(PATH, function_request(namespace="missing-1"))).status == 404
        assert fault_proxy.count(writes(), since=mark) == 0


async def test_a_syntax_error_is_told_with_its_line(api: Api) -> None:
    answer = await api.post(PATH, function_request(handler={"source": "def main(payload):\n    return (payload\n"}))
    assert "handler.source: is not valid Python: line 2: '(' was never closed" in answer.message


async def test_a_unit_is_made_a_worker_and_shows_it(api: Api, world: Places) -> None:
    await world.seed(api, 2)
    block = {"enabled": True, "requestID": "echo", "concurrency": 2}
    body = {"operationID": "w-1", "name": "worker", "specName": "g1.1", "image": "framework:1", "serverless": block}
    made = await api.post("/gpu-units", body)
    assert made.status == 201, made
    assert made.data["serverless"] | block | {"phase": "Pending"} == made.data["serverless"]
    ended = await api.put("/gpu-units/worker", {"serverless": None})
    assert (ended.status, ended.data.get("serverless")) == (200, None)
    handler = {**block, "handler": {"configMapName": "fn-echo-1"}}
    both = await api.put("/gpu-units/worker", {"serverless": handler})
    assert (both.status, both.fields) == (400, {"image"})
    swapped = await api.put("/gpu-units/worker", {"serverless": handler, "image": None})
    assert (swapped.status, swapped.data["serverless"]["handler"]["configMapName"]) == (200, "fn-echo-1")
    second = {**body, "operationID": "w-2", "name": "second", "image": None, "serverless": handler}
    assert (await api.post("/gpu-units", second)).status == 201
    for fields, want in (
        ({"image": None, "serverless": None}, {"image"}),
        ({"serverless": {"enabled": True}}, {"serverless.requestID"}),
        ({"serverless": handler}, {"image"}),
        ({"serverless": {**block, "requestID": "A"}}, {"serverless.requestID"}),
    ):
        refused = await api.post("/gpu-units", {**body, "operationID": "w-3", "name": "third", **fields})
        assert (refused.status, refused.fields) == (400, want), refused
    stock = {"operationID": "s", "specName": "g1.1", "replicas": 1, "serverless": block}
    assert (await api.post("/operator/stock-units", stock)).fields == {"serverless"}
