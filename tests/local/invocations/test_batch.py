"""Batches: each call has an outcome of its own, in order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from equipment.waiting import eventually
from gpu_runtime.http import batches
from gpu_runtime.serverless.subjects import Run
from kube.http.api import Answer
from local.invocations.world import INVOCATIONS_PATH, Api, World


async def batch(api: Api, *invocations: dict[str, Any]) -> Answer:
    return await api.call("POST", f"{INVOCATIONS_PATH}/batch", {"invocations": list(invocations)})


async def test_each_call_of_a_batch_has_its_own_outcome(world: World, api: Api) -> None:
    function, full = await world.function(), await world.function(queueLimit=1)
    await api.submit(function, invocationID="before", payload=1)
    await api.submit(function, invocationID="other", payload=1)
    await api.submit(full, invocationID="waits")
    await eventually(lambda: api.process.services.serverless.backlog.load(full) == 1)
    name = function.name
    answer = await batch(
        api,
        {"serverlessRequestID": name, "invocationID": "new", "payload": {"a": 1.0}},
        {"serverlessRequestID": name, "invocationID": "before", "payload": 1},
        {"serverlessRequestID": name, "invocationID": "other", "payload": 2},
        {"serverlessRequestID": "nobody"},
        {"serverlessRequestID": full.name},
        {"serverlessRequestID": name},
    )
    assert answer.status == 200
    assert [verdict["status"] for verdict in answer.data] == [202, 200, 409, 404, 429, 202]
    codes = [verdict.get("error", {}).get("code") for verdict in answer.data]
    assert codes == [None, None, "invocation_conflict", "function_not_found", "queue_full", None]
    assert answer.data[1]["data"]["duplicate"] is True
    assert await world.payload(Run(function, "new", 1)) == b'{"a": 1.0}'
    assert len(await world.stored(function)) == 4


async def test_a_thousand_calls_are_accepted_once_each(world: World, api: Api) -> None:
    function = await world.function()
    calls = [{"serverlessRequestID": function.name, "invocationID": f"i{number}"} for number in range(1000)]
    answer = await batch(api, *calls)
    assert Counter(verdict["status"] for verdict in answer.data) == {202: 1000}
    assert [verdict["data"]["invocationID"] for verdict in answer.data] == [call["invocationID"] for call in calls]
    again = await batch(api, *calls)
    assert Counter(verdict["status"] for verdict in again.data) == {200: 1000}
    assert len(await world.stored(function)) == 1000


async def test_an_id_twice_in_one_batch_is_one_invocation(world: World, api: Api) -> None:
    function = await world.function()
    call = {"serverlessRequestID": function.name, "invocationID": "same"}
    answer = await batch(api, *[call] * 20)
    assert Counter(verdict["status"] for verdict in answer.data) == {202: 1, 200: 19}


async def test_a_batch_with_an_invalid_call_is_refused_as_a_whole_with_the_field(world: World, api: Api) -> None:
    function = await world.function()
    good: dict[str, Any] = {"serverlessRequestID": function.name}
    bad: dict[str, tuple[dict[str, Any], str]] = {
        "a wrong value": ({**good, "priority": "low"}, "invocations[1].priority"),
        "an unknown field": ({**good, "prio": "low"}, "invocations[1].prio"),
        "no function": ({}, "invocations[1].serverlessRequestID"),
        "a call that waits": ({**good, "mode": "sync"}, "invocations[1].mode"),
        "a bad header": ({**good, "headers": {"a\n": "b"}}, "invocations[1].headers[a\n]"),
    }
    for case, (call, field) in bad.items():
        answer = await batch(api, good, call)
        assert answer.status == 400, case
        assert field in answer.fields, (case, answer)
    for calls in ([], [good] * 1001):
        assert (await batch(api, *calls)).fields == {"invocations"}
    assert await world.stored(function) == []


async def test_a_batch_that_the_broker_does_not_answer_names_the_ids_to_send_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_SECONDS", 1.0)
    async with world.api_behind_proxy() as (api, proxy):
        function = await world.function()
        assert (await api.submit(function, invocationID="warm")).status == 202
        proxy.trigger = b"HPUB inv."
        answer = await batch(api, *[{"serverlessRequestID": function.name}] * 3)
        assert answer.status == 200
        assert {verdict["status"] for verdict in answer.data} == {503}
        ids = [verdict["error"]["message"].split()[6].rstrip(":") for verdict in answer.data]
        proxy.recover()

        async def accepted() -> bool:
            calls = [{"serverlessRequestID": function.name, "invocationID": each} for each in ids]
            again = await batch(api, *calls)
            return {verdict["status"] for verdict in again.data} <= {200, 202}

        await eventually(accepted, what="the same ids are accepted")
    assert len(await world.stored(function)) == 4
