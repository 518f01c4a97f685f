"""One id, many requests, two APIs, lost answers: the invocation exists once, and every client is told the truth."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.config import ApiLimits
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.invocations import acceptance
from local.invocations.world import INVOCATIONS_PATH, Api, World

CLIENTS = 20


@mutant("serverless/subjects.py", 'return f"inv.{run.scope}.*"', 'return f"inv.{run.scope}.x"')
@pytest.mark.parametrize("round_", range(3))
async def test_of_twenty_equal_requests_at_two_apis_one_is_new(world: World, api: Api, round_: int) -> None:
    function = await world.function()
    async with world.api() as other:
        answers = await asyncio.gather(
            *(
                (api, other)[number % 2].submit(function, invocationID=f"race-{round_}", payload={"x": 1})
                for number in range(CLIENTS)
            )
        )
    assert Counter(answer.status for answer in answers) == {202: 1, 200: CLIENTS - 1}
    assert Counter(answer.data["duplicate"] for answer in answers) == {False: 1, True: CLIENTS - 1}
    assert len(await world.stored(function)) == 1


async def test_of_different_requests_with_one_id_one_wins_whatever_their_priority(world: World, api: Api) -> None:
    function = await world.function()
    async with world.api() as other:
        answers = await asyncio.gather(
            *(
                (api, other)[number % 2].submit(
                    function, invocationID="race", payload=number, priority=("normal", "high")[number % 2]
                )
                for number in range(CLIENTS)
            )
        )
    assert Counter(answer.status for answer in answers) == {202: 1, 409: CLIENTS - 1}
    winner = next(number for number, answer in enumerate(answers) if answer.status == 202)
    assert await world.payload(Run(function, "race", 1)) == str(winner).encode()
    assert len(await world.stored(function)) == 1


async def stored(world: World, function: Function, number: int) -> None:
    async def is_stored() -> bool:
        return len(await world.stored(function)) == number

    await eventually(is_stored, what="the broker has stored it")


async def known_function(world: World, api: Api) -> Function:
    """A function that the API does not have to ask for."""
    function = await world.function()
    functions = api.process.services.serverless.invocations.functions
    await eventually(lambda: functions._functions.cached(Key(*function)), what="the function is in the cache")
    return function


@mutant("service/invocations/acceptance.py", "if found.submission == mine:", "if False:")
@pytest.mark.parametrize("given", [{}, {"invocationID": "given"}])
async def test_an_invocation_whose_answer_was_lost_is_new_to_its_client(world: World, given: dict[str, str]) -> None:
    async with world.api_behind_proxy() as (api, proxy):
        function = await known_function(world, api)
        proxy.trigger = b"HPUB inv."
        request = asyncio.create_task(api.submit(function, payload=1, **given))
        await stored(world, function, 1)
        proxy.recover()
        answer = await request
        assert (answer.status, answer.data["duplicate"]) == (202, False)
        assert len(await world.stored(function)) == 1


async def test_a_replay_that_comes_before_the_lost_answer_is_told_that_it_is_one(world: World, api: Api) -> None:
    async with world.api_behind_proxy() as (deaf, proxy):
        function = await known_function(world, deaf)
        proxy.trigger = b"HPUB inv."
        request = asyncio.create_task(deaf.submit(function, invocationID="both", payload=1))
        await stored(world, function, 1)
        replay = await api.submit(function, invocationID="both", payload=1)
        conflict = await api.submit(function, invocationID="both", payload=2)
        proxy.recover()
        answer = await request
    assert (answer.status, answer.data["duplicate"]) == (202, False)
    assert (replay.status, replay.data["duplicate"]) == (200, True)
    assert conflict.status == 409


async def test_a_request_that_lost_the_race_and_its_answer_is_told_so(world: World, api: Api) -> None:
    """The other request wins between the look for the id and the publish: only the broker can tell."""
    async with world.api_behind_proxy() as (deaf, proxy):
        function = await known_function(world, deaf)
        serverless = deaf.process.services.serverless
        found = await serverless.invocations.lookup.find(function, "late")
        assert found is None
        assert (await api.submit(function, invocationID="late", payload=2)).status == 202
        proxy.trigger = b"HPUB inv."
        request = asyncio.create_task(deaf.submit(function, invocationID="late", payload=1))
        answer = await request
        assert (answer.status, answer.code) == (409, "invocation_conflict")


async def test_an_invocation_that_nobody_confirms_is_a_503_that_names_its_id(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "CONFIRM_SECONDS", 0.1)
    async with world.api_behind_proxy(limits=ApiLimits(requestSeconds=3)) as (api, proxy):
        function = await known_function(world, api)
        proxy.trigger = b"HPUB inv."
        unsure = await api.submit(function, payload=1)  # takes longer than the time of a request
        assert (unsure.status, unsure.code) == (503, "service_unavailable")
        (subject,) = await world.stored(function)
        invocation_id = subject.split(".")[3]
        assert f"with invocationID {invocation_id}" in unsure.message
        proxy.recover()

        async def replayed() -> bool:
            again = await api.submit(function, invocationID=invocation_id, payload=1)
            return again.status == 200

        await eventually(replayed, what="the same request is answered with the invocation")
        assert len(await world.stored(function)) == 1


async def test_a_cancel_whose_answer_was_lost_has_cancelled(world: World) -> None:
    async with world.api_behind_proxy() as (api, proxy):
        function = await known_function(world, api)
        await api.submit(function, invocationID="stop")
        proxy.trigger = b"HPUB res."
        request = asyncio.create_task(api.call("POST", f"{INVOCATIONS_PATH}/stop/cancel"))
        await eventually(lambda: world.result(Run(function, "stop", 1)), what="the broker has stored the end")
        proxy.recover()
        answer = await request
        assert (answer.status, answer.data["state"]) == (200, "cancelled")


async def test_a_broker_that_restarts_loses_nothing_that_was_accepted(world: World, api: Api) -> None:
    function = await known_function(world, api)
    accepted: list[str] = []
    all_restarts = asyncio.Event()

    async def client(name: str) -> None:
        for number in itertools.count():
            if all_restarts.is_set():
                return
            invocation_id = f"{name}-{number}"

            async def sent(invocation_id: str = invocation_id) -> bool:
                return (await api.submit(function, invocationID=invocation_id)).status in (200, 202)

            await eventually(sent, what="it is accepted")
            accepted.append(invocation_id)

    async def restarts() -> None:
        for _ in range(3):
            before = len(accepted)
            await eventually(lambda before=before: len(accepted) > before)  # type: ignore[misc]
            world.nats.kill()
            world.nats.start()
        before = len(accepted)
        await eventually(lambda: len(accepted) > before)
        all_restarts.set()

    await asyncio.gather(restarts(), *(client(f"c{number}") for number in range(8)))

    async def kept() -> set[str]:
        try:
            return {subject.split(".")[3] for subject in await world.stored(function)}
        except BrokerError:  # this connection may not have noticed the last restart yet
            return set()

    assert await eventually(kept, what="the broker answers") == set(accepted)
    assert len(accepted) >= 4
