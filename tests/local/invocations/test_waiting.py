"""Requests that wait for an end: as long as they were asked to, whatever happens meanwhile, and not too many."""

from __future__ import annotations

import asyncio

import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.config import ApiLimits
from gpu_runtime.http.streams import STREAMS
from gpu_runtime.serverless.subjects import Function, Run
from local.invocations.world import Api, World


async def submitted(world: World, function: Function, invocation_id: str) -> Run:
    run = Run(function, invocation_id, 1)

    async def is_stored() -> bool:
        return any(f".{invocation_id}." in subject for subject in await world.stored(function))

    await eventually(is_stored, what="the invocation is stored")
    return run


async def test_a_synchronous_call_is_answered_with_its_result(world: World, api: Api) -> None:
    function = await world.function()
    call = asyncio.create_task(api.submit(function, invocationID="sync", mode="sync", payload=1))
    await world.end(await submitted(world, function, "sync"), data=b'"done"')
    answer = await call
    assert (answer.status, answer.data["state"], answer.data["body"]) == (200, "succeeded", "done")
    assert (answer.data["mode"], answer.data["duplicate"]) == ("sync", False)
    again = await api.submit(function, invocationID="sync", mode="sync", payload=1)
    assert (again.status, again.data["body"], again.data["duplicate"]) == (200, "done", True)


async def test_a_synchronous_call_whose_wait_ends_first_is_a_202_with_the_id(world: World, api: Api) -> None:
    function = await world.function()
    answer = await api.submit(function, mode="sync", waitSeconds=1)
    assert (answer.status, answer.data["state"]) == (202, "queued")
    assert (await api.get(answer.data["invocationID"])).status == 200


async def test_a_failed_run_is_an_answer_to_a_synchronous_call(world: World, api: Api) -> None:
    function = await world.function()
    call = asyncio.create_task(api.submit(function, invocationID="bad", mode="sync"))
    run = await submitted(world, function, "bad")
    await world.end(run, state="dead_lettered", failureClass="retry_exhausted", error="it broke", statusCode=500)
    answer = await call
    assert (answer.status, answer.data["state"], answer.data["failureClass"]) == (
        200,
        "dead_lettered",
        "retry_exhausted",
    )
    assert answer.data["error"] == "it broke"


@mutant("http/waits.py", "        deadline.reschedule(None)", "        pass")
async def test_a_wait_outlives_the_time_of_a_request(world: World) -> None:
    async with world.api(limits=ApiLimits(requestSeconds=3)) as api:
        function = await world.function()
        long = asyncio.create_task(api.submit(function, invocationID="long", mode="sync"))
        run = await submitted(world, function, "long")
        # This one is answered after more than the time of a request, and the first one still waits.
        short = await api.submit(function, mode="sync", waitSeconds=4)
        assert short.status == 202
        await world.end(run)
        assert (await long).status == 200


@mutant("http/routes/invocations.py", "    with suppress(TooManyRequests):", "    with suppress(ZeroDivisionError):")
async def test_waits_have_the_limit_of_streams_and_leave_room_for_requests(world: World) -> None:
    async with world.api(limits=ApiLimits(streams=2, requestsInFlight=3)) as api:
        function = await world.function()
        calls = [
            asyncio.create_task(api.submit(function, invocationID=f"w-{number}", mode="sync")) for number in range(2)
        ]
        runs = [await submitted(world, function, f"w-{number}") for number in range(2)]

        async def refused() -> bool:
            return (await api.get("w-0", wait="30s")).status == 429

        await eventually(refused, what="both waits are counted")
        for _ in range(5):
            assert (await api.get("w-0")).status == 200
        # What was accepted is never refused: without room to wait, the client gets the id at once.
        crowded = await api.submit(function, mode="sync")
        assert (crowded.status, crowded.data["state"]) == (202, "queued")
        for run in runs:
            await world.end(run)
        assert [answer.status for answer in await asyncio.gather(*calls)] == [200, 200]


async def test_waiting_calls_are_answered_when_the_process_ends(world: World) -> None:
    async with world.api() as api:
        function = await world.function()
        call = asyncio.create_task(api.submit(function, invocationID="ending", mode="sync"))
        await submitted(world, function, "ending")
        streams = api.process.server._runner.app[STREAMS]
        await eventually(lambda: streams._open, what="the call waits")
    answer = await call
    assert (answer.status, answer.data["invocationID"]) == (202, "ending")


async def test_a_wait_at_one_api_ends_when_another_process_ends_the_run(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="far")
    async with world.api() as other:
        wait = asyncio.create_task(other.get("far", wait="60s"))
        cancel = await api.call("POST", "/serverless/invocations/far/cancel")
        assert cancel.status == 200
        assert (await wait).data["state"] == "cancelled"


async def test_a_wait_survives_a_restart_of_the_broker(world: World, api: Api) -> None:
    function = await world.function()
    call = asyncio.create_task(api.submit(function, invocationID="tough", mode="sync"))
    run = await submitted(world, function, "tough")
    world.nats.kill()
    world.nats.start()
    await world.nats.wait_until_it_answers()
    async with world.nats.connection() as fresh:
        again = World(world.server, world.nats, world.client, fresh)
        await eventually(lambda: again.end(run), what="the run is ended")
    answer = await call
    assert (answer.status, answer.data["state"]) == (200, "succeeded")


@pytest.mark.parametrize("wait", ["1ms", "0", "1s", "1m", "600"])
async def test_the_time_to_wait_has_units(world: World, api: Api, wait: str) -> None:
    function = await world.function()
    await api.submit(function, invocationID="ended")
    await world.end(Run(function, "ended", 1))
    assert (await api.get("ended", wait=wait)).status == 200
