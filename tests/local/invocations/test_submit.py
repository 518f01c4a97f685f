"""Submits and lookups, end to end: what was answered 202 is on the broker's disk, once."""

from __future__ import annotations

import asyncio

from gpu_runtime.serverless.subjects import Run
from local.invocations.world import Api, World


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
