"""Submits and lookups, end to end: what was answered 202 is on the broker's disk, once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from equipment.nats import SMALL_STREAMS
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.config.runtime_api import InvocationSettings
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.cluster import GPU_FUNCTIONS, GPU_UNITS
from local.invocations.world import INVOCATIONS_PATH, NAMESPACE, Api, World


async def test_an_accepted_invocation_is_in_the_queue_and_its_result_can_be_waited_for(world: World, api: Api) -> None:
    function = await world.function()
    accepted = await api.submit(function, invocationID="inv-1", payload={"x": 1})
    assert accepted.status == 202
    assert accepted.data["state"] == "queued"
    assert accepted.data["duplicate"] is False
    run = Run(function, "inv-1", 1)
    assert await world.payload(run) == b'{"x": 1}'

    waiting = asyncio.create_task(api.get("inv-1", wait="60s"))
    assert await world.end(run, data=b'{"got":{"x":1}}')
    answer = await waiting
    assert answer.status == 200
    assert answer.data["state"] == "succeeded"
    assert answer.data["body"] == {"got": {"x": 1}}
    assert answer.data["failureClass"] is None
    assert answer.data["error"] is None
    assert answer.data["attempts"] == 1


async def test_the_message_carries_the_policy_of_the_function(world: World, api: Api) -> None:
    retry = {"maxAttempts": 7, "backoffSeconds": [3]}
    function = await world.function(retry=retry, invocationTimeoutSeconds=11)
    await api.submit(function, invocationID="own", headers={"A": "b"}, attributes={"c": "d"}, priority="high")
    message = await world.message(Run(function, "own", 1))
    assert (message.retry.maxAttempts, message.retry.backoffSeconds, message.runSeconds) == (7, (3,), 11)
    assert (message.headers, message.attributes) == ({"A": "b"}, {"c": "d"})
    assert (message.deadline - message.acceptedAt).total_seconds() == 86400
    assert await world.stored(function) == [f"inv.{function.scope}.own.1.h"]

    await api.submit(function, invocationID="timed", timeoutSeconds=5)
    timed = await world.message(Run(function, "timed", 1))
    assert timed.runSeconds is None  # one try may take all the time that the caller gave
    assert (timed.deadline - timed.acceptedAt).total_seconds() == 5


async def test_an_id_is_made_when_the_client_gives_none(world: World, api: Api) -> None:
    function = await world.function()
    ids = {(await api.submit(function)).data["invocationID"] for _ in range(3)}
    assert len(ids) == 3
    assert len(await world.stored(function)) == 3


SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same payload": ({"payload": {"a": 1, "b": [2]}}, {"payload": {"a": 1, "b": [2]}}),
    "another order of keys": ({"payload": {"a": 1, "b": 2}}, {"payload": {"b": 2, "a": 1}}),
    "2 written as 2.0": ({"payload": 2}, {"payload": 2.0}),
    "no payload and null": ({}, {"payload": None}),
    "no headers and an empty object": ({}, {"headers": {}}),
    "another mode": ({"mode": "async"}, {"mode": "sync", "waitSeconds": 0}),
    "the default namespace by name": ({}, {"namespace": NAMESPACE}),
}
OTHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another payload": ({"payload": 1}, {"payload": 2}),
    "a key that is null": ({"payload": {"a": None}}, {"payload": {}}),
    "an empty text": ({"payload": {"a": ""}}, {"payload": {}}),
    "true and 1": ({"payload": True}, {"payload": 1}),
    "another header": ({"headers": {"a": "1"}}, {"headers": {"a": "2"}}),
    "another timeout": ({"timeoutSeconds": 5}, {"timeoutSeconds": 6}),
    "another priority": ({"priority": "high"}, {}),
}


@pytest.mark.parametrize("case", SAME)
async def test_the_same_request_again_is_answered_with_the_invocation_that_exists(
    world: World, api: Api, case: str
) -> None:
    first, second = SAME[case]
    function = await world.function()
    assert (await api.submit(function, invocationID="twice", **first)).status == 202
    again = await api.submit(function, invocationID="twice", **second)
    assert again.status == (202 if second.get("mode") == "sync" else 200), again
    assert again.data["duplicate"] is True
    assert again.data["state"] == "queued"
    assert len(await world.stored(function)) == 1


@mutant("service/invocations/acceptance.py", "if found.request_hash != submission.request_hash:", "if False:")
@pytest.mark.parametrize("case", OTHER)
async def test_another_request_with_a_used_id_is_a_conflict(world: World, api: Api, case: str) -> None:
    first, second = OTHER[case]
    function = await world.function()
    assert (await api.submit(function, invocationID="twice", **first)).status == 202
    again = await api.submit(function, invocationID="twice", **second)
    assert (again.status, again.code) == (409, "invocation_conflict")
    assert len(await world.stored(function)) == 1


async def test_a_replay_after_the_end_shows_the_end(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="done", payload=1)
    await world.end(Run(function, "done", 1), data=b"[1]")
    again = await api.submit(function, invocationID="done", payload=1)
    assert (again.status, again.data["state"], again.data["body"]) == (200, "succeeded", [1])


async def test_a_replay_is_answered_after_the_function_was_deleted(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="kept")
    await world.client.delete(GPU_FUNCTIONS, Key(*function))
    await eventually(
        lambda: api.process.services.serverless.invocations.functions._functions.cached(Key(*function)) is None,
        what="the cache knows of the deletion",
    )
    assert (await api.submit(function, invocationID="kept")).status == 200
    refused = await api.submit(function, invocationID="new")
    assert (refused.status, refused.code) == (404, "function_not_found")


async def test_an_unknown_function_is_refused_before_anything_is_queued(world: World, api: Api) -> None:
    unknown = Function(NAMESPACE, "nobody")
    for fields in ({}, {"invocationID": "given"}):
        answer = await api.submit(unknown, **fields)
        assert (answer.status, answer.code) == (404, "function_not_found")
        assert "nobody" in answer.message
    assert await world.stored(unknown) == []


async def test_a_function_that_is_being_deleted_takes_no_more_invocations(world: World, api: Api) -> None:
    function = await world.function()
    key = Key(*function)
    await world.client.patch(GPU_FUNCTIONS, key, {"metadata": {"finalizers": ["example.com/test"]}})
    await world.client.delete(GPU_FUNCTIONS, key)
    try:

        async def refused() -> bool:
            return (await api.submit(function)).status == 409

        await eventually(refused, what="a function that is being deleted refuses")
    finally:
        await world.client.patch(GPU_FUNCTIONS, key, {"metadata": {"finalizers": []}})


async def test_static_workers_make_a_function(world: World, api: Api) -> None:
    function = Function(NAMESPACE, "static-workers")
    unit = {
        "metadata": {"namespace": NAMESPACE, "name": "static-worker"},
        "spec": {
            "specName": "g1.1",
            "image": "python:3.12",
            "serverless": {"enabled": True, "requestID": function.name},
        },
    }
    await world.client.create(GPU_UNITS, unit)

    async def accepted() -> bool:
        return (await api.submit(function, invocationID="for-static")).status in (200, 202)

    await eventually(accepted, what="the unit is in the cache")
    assert len(await world.stored(function)) == 1


@mutant(
    "service/invocations/functions.py", "any(map(_is_static, self._workers(function)))", "any(self._workers(function))"
)
async def test_a_worker_that_outlives_its_function_does_not_stand_for_it(world: World, api: Api) -> None:
    function = Function(NAMESPACE, "orphaned")
    owner = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUFunction",
        "name": function.name,
        "uid": "gone",
        "controller": True,
    }
    unit = {
        "metadata": {"namespace": NAMESPACE, "name": "fn-orphaned-0", "ownerReferences": [owner]},
        "spec": {
            "specName": "g1.1",
            "image": "python:3.12",
            "serverless": {"enabled": True, "requestID": function.name},
        },
    }
    await world.client.create(GPU_UNITS, unit)
    functions = api.process.services.serverless.invocations.functions
    await eventually(lambda: functions.workers(function), what="the unit is in the cache")
    assert (await api.submit(function)).status == 404


@mutant("service/invocations/acceptance.py", "self._backlog.load(function) >= policy.queue_limit", "False")
async def test_a_full_queue_of_a_function_is_a_429_and_replays_are_answered(world: World, api: Api) -> None:
    function = await world.function(queueLimit=2)
    for number in range(2):
        assert (await api.submit(function, invocationID=f"inv-{number}")).status == 202
    await eventually(lambda: api.process.services.serverless.backlog.load(function) == 2)
    refused = await api.submit(function, invocationID="third")
    assert (refused.status, refused.code) == (429, "queue_full")
    assert int(refused.headers["Retry-After"]) > 0
    assert (await api.submit(function, invocationID="inv-1")).status == 200
    await world.end(Run(function, "inv-0", 1))

    async def accepted() -> bool:
        return (await api.submit(function, invocationID="third")).status in (200, 202)

    await eventually(accepted, what="there is room after an end")


async def test_a_full_broker_is_a_503_and_nothing_is_queued(world: World) -> None:
    small = replace(SMALL_STREAMS, invocationsBytes=1024**2)
    async with world.api(streams=small) as api:
        function = await world.function()
        statuses = [(await api.submit(function, payload="x" * 400_000)).status for _ in range(4)]
        assert statuses == [202, 202, 503, 503]
        refused = await api.submit(function, payload="x" * 400_000)
        assert (refused.code, int(refused.headers["Retry-After"]) > 0) == ("service_unavailable", True)
        assert len(await world.stored(function)) == 2


async def test_without_the_broker_invocations_are_a_503_and_everything_else_works(world: World, api: Api) -> None:
    function = await world.function()
    world.nats.kill()
    broker = api.process.broker
    assert broker is not None
    await eventually(lambda: broker.problem, what="the connection is lost")
    for answer in (await api.submit(function), await api.get("any"), await api.get("any", function=function.name)):
        assert (answer.status, answer.code) == (503, "service_unavailable")
        assert int(answer.headers["Retry-After"]) > 0
    assert (await api.call("GET", "/gpu-units")).status == 200
    world.nats.start()

    async def accepted() -> bool:
        return (await api.submit(function)).status == 202

    await eventually(accepted, what="invocations are accepted again")


async def test_without_a_broker_in_the_settings_the_answer_says_which_is_missing(world: World) -> None:
    async with world.api(nats=NatsSettings()) as api:
        calls = (
            ("POST", "", {"serverlessRequestID": "f"}),
            ("POST", "/batch", {"invocations": [{"serverlessRequestID": "f"}]}),
            ("GET", "", None),
            ("GET", "/x", None),
            ("GET", "/x/stream", None),
            ("POST", "/x/cancel", None),
            ("POST", "/x/retry", None),
        )
        for method, path, body in calls:
            answer = await api.call(method, INVOCATIONS_PATH + path, body)
            assert (answer.status, answer.message) == (503, "serverless is not configured: set nats.url"), path
        assert (await api.call("GET", "/serverless/dead-letters")).status == 503
        assert (await api.call("GET", "/gpu-units")).status == 200


async def test_an_api_whose_credentials_the_broker_refuses_ends_in_order_to_read_them_again(world: World) -> None:
    async with world.api() as api:
        broker = api.process.broker
        assert broker is not None
        broker.lost.set()
        await asyncio.wait_for(asyncio.shield(api.task), 60)


async def test_streams_with_other_settings_are_reported_and_left_alone(world: World, api: Api) -> None:
    keeper = api.process.services.serverless.streams
    assert keeper.problem is None
    async with world.api(streams=replace(SMALL_STREAMS, resultsBytes=2 * 1024**2)) as other:
        serverless = other.process.services.serverless
        assert "RESULTS has max_bytes" in (serverless.warnings()["streams of the broker"] or "")
        function = await world.function()
        assert (await other.submit(function)).status == 202


NUMBERS = b'{"a": 1.0, "big": 123456789012345678901234567890, "tiny": 1e-7, "huge": 1e300, "text": "\\u00fc"}'


@mutant(
    "http/routes/invocations.py",
    'bytes(written.get("payload", Raw(b"null")))',
    'msgspec.json.encode(sent.get("payload"))',
)
async def test_a_json_payload_arrives_byte_for_byte(world: World, api: Api) -> None:
    function = await world.function()
    body = b'{"serverlessRequestID": "%b", "invocationID": "raw", "payload": %b}' % (function.name.encode(), NUMBERS)
    headers = {"Content-Type": "application/json"}
    for status in (202, 200):
        answer = await api.call("POST", INVOCATIONS_PATH, data=body, headers=headers)
        assert answer.status == status, answer
    assert await world.payload(Run(function, "raw", 1)) == NUMBERS


def described(function: Function, kind: str | None, **fields: Any) -> dict[str, str]:
    headers = {"X-Invocation": json.dumps({"serverlessRequestID": function.name, **fields})}
    return {**headers, "Content-Type": kind} if kind is not None else headers


async def test_other_bytes_are_a_payload_with_their_content_type(world: World, api: Api) -> None:
    function = await world.function()
    picture = bytes(range(256))
    headers = described(function, "image/png", invocationID="picture", attributes={"a": "b"})
    for status in (202, 200):
        assert (await api.call("POST", INVOCATIONS_PATH, data=picture, headers=headers)).status == status
    run = Run(function, "picture", 1)
    message = await world.message(run)
    assert (message.contentType, message.attributes) == ("image/png", {"a": "b"})
    assert await world.payload(run) == picture
    other = await api.call("POST", INVOCATIONS_PATH, data=picture + b"!", headers=headers)
    assert other.code == "invocation_conflict"
    retyped = described(function, "image/jpeg", invocationID="picture", attributes={"a": "b"})
    assert (await api.call("POST", INVOCATIONS_PATH, data=picture, headers=retyped)).code == "invocation_conflict"


async def test_a_json_body_beside_the_header_is_the_same_as_a_payload(world: World, api: Api) -> None:
    function = await world.function()
    headers = described(function, "application/json", invocationID="same")
    assert (await api.call("POST", INVOCATIONS_PATH, data=b'{"x": 1}', headers=headers)).status == 202
    assert (await api.submit(function, invocationID="same", payload={"x": 1})).status == 200
    assert await world.payload(Run(function, "same", 1)) == b'{"x": 1}'


@mutant("http/route.py", "            check_origin(request)\n        elif", "            pass\n        elif")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_page_of_another_site_cannot_submit(world: World, api: Api, kind: str) -> None:
    function = await world.function()
    body = json.dumps({"serverlessRequestID": function.name}).encode()
    page = {"Origin": "http://elsewhere.example", "Content-Type": kind}
    assert (await api.call("POST", INVOCATIONS_PATH, data=body, headers=page)).status == 415
    # A browser asks the server before it sends this header for another site, and the server does not agree.
    asked = await api.call("POST", INVOCATIONS_PATH, data=body, headers=described(function, kind) | page)
    assert asked.status == 403
    for path in ("x/cancel", "x/retry"):
        answer = await api.call("POST", f"{INVOCATIONS_PATH}/{path}", headers={"Origin": "http://elsewhere.example"})
        assert answer.status == 403
    assert await world.stored(function) == []


async def test_large_payloads_travel_in_parts_up_to_a_limit(world: World) -> None:
    async with world.api(invocations=InvocationSettings(payloadBytes=3 * 1024**2)) as api:
        function = await world.function()
        text = "x" * (2 * 1024**2)
        assert (await api.submit(function, invocationID="large", payload=text)).status == 202
        assert (await api.submit(function, invocationID="large", payload=text)).status == 200
        run = Run(function, "large", 1)
        assert (await world.message(run)).payload.ref is not None
        assert await world.payload(run) == json.dumps(text).encode()
        too_large = await api.submit(function, payload="x" * (3 * 1024**2))
        assert (too_large.status, too_large.code) == (413, "too_large")
        raw = await api.call("POST", INVOCATIONS_PATH, data=bytes(4 * 1024**2), headers=described(function, "a/b"))
        assert (raw.status, raw.code) == (413, "too_large")


async def test_large_and_binary_results_are_shown(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="large")
    await world.end(Run(function, "large", 1), data=json.dumps("y" * 1_500_000).encode())
    assert (await api.get("large")).data["body"] == "y" * 1_500_000
    await api.submit(function, invocationID="picture")
    await world.end(Run(function, "picture", 1), data=b"\x89PNG", is_json=False)
    assert (await api.get("picture")).data["bodyBase64"] == "iVBORw=="
    await api.submit(function, invocationID="gone")
    run = Run(function, "gone", 1)
    await world.end(run, data=b"1" * 600_000)
    await world.purge("BODIES", f"body.{run.scope}.>")
    assert "no longer kept" in (await api.get("gone")).data["bodyMissing"]


@mutant("service/invocations/lookup.py", "if len(functions) > 1:", "if False:")
async def test_an_id_of_two_functions_needs_the_function(world: World, api: Api) -> None:
    one, two = await world.function(), await world.function()
    for function in (one, two):
        await api.submit(function, invocationID="shared", payload=function.name)
    answer = await api.get("shared")
    assert (answer.status, answer.code) == (409, "invocation_ambiguous")
    assert str(one) in answer.message
    assert str(two) in answer.message
    assert (await api.get("shared", function=two.name)).data["serverlessRequestID"] == two.name


async def test_an_id_in_a_namespace_that_is_not_served_does_not_exist(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="mine")
    async with world.api(allowedNamespaces=["default"]) as other:
        answer = await other.get("mine")
        assert (answer.status, answer.code) == (404, "invocation_not_found")
        assert (await other.get("mine", namespace=NAMESPACE)).status == 403


async def test_what_does_not_exist_is_a_404(world: World, api: Api) -> None:
    function = await world.function()
    for answer in (await api.get("nothing"), await api.get("nothing", function=function.name)):
        assert (answer.status, answer.code) == (404, "invocation_not_found")


async def test_the_state_is_running_while_a_worker_says_so_and_the_queue_has_positions(world: World, api: Api) -> None:
    function = await world.function()
    for number in range(3):
        await api.submit(function, invocationID=f"q-{number}", priority="high" if number == 2 else "normal")

    async def positions() -> list[Any]:
        return [(await api.get(f"q-{number}")).data.get("position") for number in range(3)]

    await eventually(lambda: _equals(positions, [2, 3, 1]), what="high priority comes first")
    await world.heartbeat(function, "q-0.1", worker="w7")

    async def running() -> bool:
        view = (await api.get("q-0")).data
        return bool(view["state"] == "running" and view["workerName"] == "w7")

    await eventually(running, what="the heartbeat is known")
    assert await positions() == [None, 2, 1]


async def _equals(probe: Any, wanted: object) -> bool:
    value = await probe()
    assert value == wanted
    return True


async def test_a_waiting_invocation_says_why_no_worker_is_ready(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="blocked")
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "WorkersStarting",
        "message": "worker fn-0 pulls its image",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await world.set_status(function, phase="Progressing", workers=1, conditions=[condition])

    async def explained() -> bool:
        view = (await api.get("blocked")).data
        return (view.get("reason"), view.get("message")) == ("WorkersStarting", "worker fn-0 pulls its image")

    await eventually(explained, what="the reason of the function is shown")


async def test_a_namespace_that_is_not_served_is_forbidden(world: World, api: Api) -> None:
    function = await world.function()
    assert (await api.submit(function, namespace="kube-system")).status == 403
    assert (await api.get("x", function=function.name, namespace="elsewhere")).status == 403
