"""Cancel, retry and redrive: in every state, at once and repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.messages import Cancelled
from gpu_runtime.serverless.subjects import Function, Run
from kube.http.api import Answer
from local.invocations.world import INVOCATIONS_PATH, Api, World

ENDS = ["succeeded", "failed", "expired", "cancelled", "dead_lettered"]


async def act(api: Api, invocation_id: str, action: str, **query: Any) -> Answer:
    return await api.call("POST", f"{INVOCATIONS_PATH}/{invocation_id}/{action}", params=query)


@mutant(
    "service/invocations/changes.py",
    "await self._broker.nats.publish(subjects.cancelled(found.run.function), encode(news))",
    "pass",
)
@pytest.mark.parametrize("running", [False, True])
async def test_an_invocation_that_waits_or_runs_is_cancelled_and_the_workers_hear_of_it(
    world: World, api: Api, running: bool
) -> None:
    function = await world.function()
    await api.submit(function, invocationID="stop")
    heard: asyncio.Queue[Cancelled] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(msgspec.json.decode(message.data, type=Cancelled))

    await world.broker.nats.subscribe(subjects.cancelled(function), cb=hear)
    await world.broker.nats.flush()
    if running:
        await world.heartbeat(function, "stop.1")

        async def is_running() -> bool:
            return bool((await api.get("stop")).data["state"] == "running")

        await eventually(is_running)
    answer = await act(api, "stop", "cancel")
    assert (answer.status, answer.data["state"], answer.data["failureClass"]) == (200, "cancelled", "cancelled_by_user")
    assert await asyncio.wait_for(heard.get(), 60) == Cancelled(invocationID="stop", run=1)
    assert await world.end(Run(function, "stop", 1)) is False  # what the worker says later is too late
    assert (await api.get("stop")).data["state"] == "cancelled"
    again = await act(api, "stop", "cancel")
    assert (again.status, again.data["completedAt"]) == (200, answer.data["completedAt"])


@pytest.mark.parametrize("state", [state for state in ENDS if state != "cancelled"])
async def test_what_has_ended_cannot_be_cancelled(world: World, api: Api, state: str) -> None:
    function = await world.function()
    await api.submit(function, invocationID="over")
    await world.end(Run(function, "over", 1), state=state)
    answer = await act(api, "over", "cancel")
    assert (answer.status, answer.code) == (409, "invocation_state")
    assert state in answer.message


async def test_of_a_cancel_and_an_end_at_once_one_wins(world: World, api: Api) -> None:
    function = await world.function()
    outcomes: Counter[tuple[int, bool]] = Counter()
    for number in range(10):
        await api.submit(function, invocationID=f"race-{number}")
        run = Run(function, f"race-{number}", 1)
        answer, first = await asyncio.gather(act(api, run.invocation_id, "cancel"), world.end(run))
        outcomes[(answer.status, first)] += 1
        end = await world.result(run)
        assert end is not None
        assert end.state == ("succeeded" if first else "cancelled")
    assert outcomes.keys() <= {(200, False), (409, True)}


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_what_does_not_exist_cannot_be_changed(world: World, api: Api, action: str) -> None:
    function = await world.function()
    assert (await act(api, "nothing", action)).status == 404
    assert (await act(api, "nothing", action, function=function.name)).status == 404


@pytest.mark.parametrize("state", [state for state in ENDS if state != "succeeded"])
async def test_an_invocation_that_did_not_succeed_runs_again(world: World, api: Api, state: str) -> None:
    function = await world.function()
    await api.submit(function, invocationID="again", payload={"x": 1}, priority="high", timeoutSeconds=50)
    await world.end(Run(function, "again", 1), state=state)
    answer = await act(api, "again", "retry")
    assert (answer.status, answer.data["run"], answer.data["state"]) == (202, 2, "queued")
    second = Run(function, "again", 2)
    assert await world.payload(second) == b'{"x": 1}'
    message = await world.message(second)
    assert (message.deadline - message.acceptedAt).total_seconds() == 50
    assert await world.stored(function) == [f"inv.{function.scope}.again.{run}.h" for run in (1, 2)]
    repeated = await act(api, "again", "retry")
    assert (repeated.status, repeated.data["run"], repeated.data["duplicate"]) == (200, 2, True)
    assert (await api.get("again")).data["run"] == 2
    replay = await api.submit(function, invocationID="again", payload={"x": 1}, priority="high", timeoutSeconds=50)
    assert (replay.status, replay.data["run"]) == (200, 2)
    await world.end(second)
    assert (await api.get("again", wait="30s")).data["state"] == "succeeded"


@mutant("service/invocations/changes.py", "(run is not None and run < last)", "False")
async def test_a_retry_of_a_named_run_begins_one_run_however_often_it_is_sent(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="named")
    for run in (1, 2):
        await world.end(Run(function, "named", run), state="failed")
        if run == 1:
            assert (await act(api, "named", "retry", run=1)).status == 202
    assert (await act(api, "named", "retry", run=1)).status == 200
    assert len(await world.stored(function)) == 2
    future = await act(api, "named", "retry", run=3)
    assert (future.status, future.code) == (409, "invocation_state")


async def test_many_retries_at_two_apis_begin_one_run(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="many")
    await world.end(Run(function, "many", 1), state="failed")
    async with world.api() as other:
        answers = await asyncio.gather(*(act((api, other)[n % 2], "many", "retry", run=1) for n in range(20)))
    assert Counter(answer.status for answer in answers) == {202: 1, 200: 19}
    assert len(await world.stored(function)) == 2


async def test_what_waits_or_succeeded_is_not_run_again(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="fine")
    waiting = await act(api, "fine", "retry")
    assert (waiting.status, waiting.code) == (409, "invocation_state")
    await world.end(Run(function, "fine", 1))
    done = await act(api, "fine", "retry")
    assert (done.status, done.code) == (409, "invocation_state")
    assert len(await world.stored(function)) == 1


@mutant("service/invocations/changes.py", "if message.payload.ref is None:", "if True:")
async def test_a_large_payload_is_copied_for_the_next_run(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="large", payload="x" * 700_000)
    await world.end(Run(function, "large", 1), state="failed")
    assert (await act(api, "large", "retry")).status == 202
    await world.purge("BODIES", f"body.{Run(function, 'large', 1).scope}.>")
    assert len(await world.payload(Run(function, "large", 2))) == 700_002


async def test_an_invocation_of_a_deleted_function_is_not_run_again(world: World, api: Api) -> None:
    function = Function("runtime-instance", "deleted-function")
    known = await world.function()
    await api.submit(known, invocationID="x")
    message = msgspec.structs.replace(
        await world.message(Run(known, "x", 1)), serverlessRequestID=function.name, invocationID="orphan"
    )
    run = Run(function, "orphan", 1)
    await world.publish(subjects.accepted(run, "normal"), msgspec.json.encode(message))
    await world.end(run, state="failed")
    answer = await act(api, "orphan", "retry")
    assert (answer.status, answer.code) == (404, "function_not_found")


async def test_a_message_that_cannot_be_read_is_shown_and_can_be_cancelled(world: World, api: Api) -> None:
    function = await world.function()
    run = Run(function, "garbage", 1)
    await world.publish(subjects.accepted(run, "normal"), b"{no json")
    assert (await api.get("garbage")).data["state"] == "queued"
    assert (await act(api, "garbage", "cancel")).status == 200
    retried = await act(api, "garbage", "retry")
    assert (retried.status, retried.code) == (409, "invocation_state")
    assert (await api.submit(function, invocationID="garbage")).code == "invocation_conflict"


async def test_an_end_that_cannot_be_read_is_shown_as_a_dead_letter(world: World, api: Api) -> None:
    function = await world.function()
    await api.submit(function, invocationID="odd")
    await world.publish(subjects.ended(Run(function, "odd", 1)), b"\xff")
    view = (await api.get("odd", wait="30s")).data
    assert (view["state"], view["failureClass"]) == ("dead_lettered", "malformed_message")
