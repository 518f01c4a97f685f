"""What only the database remembers: replays after housekeeping, lists, dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.serverless.results.base import Batch, ResultStore
from gpu_runtime.serverless.results.opening import open_store
from gpu_runtime.serverless.results.records import DeadLetter
from gpu_runtime.serverless.subjects import Function, Run
from kube.http.api import Answer
from local.invocations.world import INVOCATIONS_PATH, Api, World

LETTERS = "/serverless/dead-letters"


@pytest.fixture
def results(tmp_path: Path) -> ResultsSettings:
    return ResultsSettings(database=f"sqlite:///{tmp_path / 'results.db'}")


@pytest.fixture
async def store(results: ResultsSettings) -> AsyncIterator[ResultStore]:
    opened = open_store(results)
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def api(world: World, store: ResultStore, results: ResultsSettings) -> AsyncIterator[Api]:
    async with world.api(results=results) as running:
        yield running


async def moved(world: World, api: Api, store: ResultStore, function: Function, name: str, **end: Any) -> Run:
    """An invocation that ended and that only the database knows."""
    assert (await api.submit(function, invocationID=name, payload={"of": name})).status == 202
    run = Run(function, name, 1)
    await world.end(run, **end)
    await world.move_to_database(store, run)
    return run


@mutant("service/invocations/acceptance.py", "if not submission.is_new:", "if False:")
async def test_an_id_that_the_broker_has_dropped_is_still_taken(world: World, api: Api, store: ResultStore) -> None:
    function = await world.function()
    await moved(world, api, store, function, "old", data=b"[7]")
    again = await api.submit(function, invocationID="old", payload={"of": "old"})
    assert (again.status, again.data["duplicate"], again.data["body"]) == (200, True, [7])
    other = await api.submit(function, invocationID="old", payload={"of": "new"})
    assert (other.status, other.code) == (409, "invocation_conflict")
    assert await world.stored(function) == []
    for answer in (await api.get("old"), await api.get("old", function=function.name, wait="10s")):
        assert (answer.status, answer.data["state"], answer.data["body"]) == (200, "succeeded", [7])


async def test_an_id_at_the_broker_and_one_in_the_database_are_ambiguous(
    world: World, api: Api, store: ResultStore
) -> None:
    one, two = await world.function(), await world.function()
    await moved(world, api, store, one, "both")
    await api.submit(two, invocationID="both")
    answer = await api.get("both")
    assert (answer.status, answer.code) == (409, "invocation_ambiguous")


async def test_a_run_of_the_database_is_run_again_at_the_broker(world: World, api: Api, store: ResultStore) -> None:
    function = await world.function()
    await moved(world, api, store, function, "again", state="failed")
    answer = await api.call("POST", f"{INVOCATIONS_PATH}/again/retry")
    assert (answer.status, answer.data["run"]) == (202, 2)
    assert await world.payload(Run(function, "again", 2)) == b'{"of": "again"}'
    assert (await api.get("again")).data["run"] == 2


async def test_while_the_database_is_away_only_ids_of_clients_that_the_broker_does_not_know_wait(
    world: World, tmp_path: Path
) -> None:
    away = ResultsSettings(database=f"sqlite:///{tmp_path / 'no-such-folder' / 'results.db'}")
    async with world.api(results=away) as api:
        function = await world.function()
        given = await api.submit(function, invocationID="given")
        assert (given.status, given.code) == (503, "service_unavailable")
        assert await world.stored(function) == []
        made = await api.submit(function)
        assert made.status == 202
        name = made.data["invocationID"]
        assert (await api.submit(function, invocationID=name)).status == 200
        await world.end(Run(function, name, 1))
        assert (await api.get(name, wait="30s")).data["state"] == "succeeded"
        assert (await api.get("unknown", function=function.name)).status == 503
        assert (await api.call("GET", INVOCATIONS_PATH)).status == 503
        assert (await api.call("GET", LETTERS)).status == 503


async def test_while_the_broker_is_away_ends_are_read_from_the_database(
    world: World, api: Api, store: ResultStore
) -> None:
    function = await world.function()
    await moved(world, api, store, function, "kept")
    world.nats.kill()
    broker = api.process.broker
    assert broker is not None
    await eventually(lambda: broker.problem, what="the connection is lost")
    answer = await api.get("kept", function=function.name)
    assert (answer.status, answer.data["state"]) == (200, "succeeded")


async def listed(api: Api, path: str = INVOCATIONS_PATH, **query: Any) -> list[dict[str, Any]]:
    """All entries of a list, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await api.call("GET", path, params=query)
        assert answer.status == 200, answer
        found += answer.data
        if not (token := answer.body.get("continue")):
            return found
        query["continue"] = token


async def test_invocations_are_listed_by_function_state_and_time_in_pages(
    world: World, api: Api, store: ResultStore
) -> None:
    function, other = await world.function(), await world.function()
    for number in range(5):
        await moved(world, api, store, function, f"n{number}", state=("succeeded", "failed")[number % 2])
    await moved(world, api, store, other, "elsewhere")
    names = [f"n{number}" for number in reversed(range(5))]
    assert [each["invocationID"] for each in await listed(api, function=function.name, limit=2)] == names
    failed = await listed(api, function=function.name, state="failed")
    assert [each["invocationID"] for each in failed] == ["n3", "n1"]
    assert "body" not in failed[0]
    assert len(await listed(api)) == 6
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert len(await listed(api, function=function.name, since=(now - hour).isoformat())) == 5
    assert await listed(api, function=function.name, until=(now - hour).isoformat()) == []
    without_zone = (now - hour).replace(tzinfo=None).isoformat()
    assert len(await listed(api, function=function.name, since=without_zone)) == 5
    assert await listed(api, function=function.name, until=without_zone) == []
    for odd in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z"):
        for name in ("since", "until"):
            answer = await api.call("GET", INVOCATIONS_PATH, params={name: odd})
            assert answer.status in (200, 400), answer
    wrong = await api.call("GET", INVOCATIONS_PATH, params={"continue": "of-no-page"})
    assert (wrong.status, wrong.fields) == (400, {"continue"})


async def test_running_invocations_are_listed_by_what_workers_say(world: World, api: Api) -> None:
    function = await world.function()
    for number in range(3):
        await api.submit(function, invocationID=f"r{number}")
    await world.heartbeat(function, "r0.1", "r2.1", "no-run", "bad id.1")

    async def running() -> bool:
        found = await listed(api, function=function.name, state="running", limit=1, since="2020-01-01T00:00:00")
        return [each["invocationID"] for each in found] == ["r0", "r2"]

    await eventually(running, what="the heartbeat is known")


async def redriven(api: Api, letter: str) -> Answer:
    return await api.call("POST", f"{LETTERS}/{letter}/redrive")


@mutant(
    "service/invocations/dead_letters.py", "retry(found, run.number, only_dead=True)", "retry(found, only_dead=False)"
)
async def test_a_dead_letter_is_listed_explained_and_redriven_once(world: World, api: Api, store: ResultStore) -> None:
    function = await world.function()
    dead = {"state": "dead_lettered", "failureClass": "retry_exhausted", "error": "boom", "attempts": 3}
    await moved(world, api, store, function, "poison", **dead)
    (letter,) = await listed(api, LETTERS, function=function.name)
    assert (letter["invocationID"], letter["attempts"], letter["error"]) == ("poison", 3, "boom")
    assert letter["failureClass"] == "retry_exhausted"
    shown = await api.call("GET", f"{LETTERS}/{letter['id']}")
    assert shown.data["error"] == "boom"
    answer = await redriven(api, letter["id"])
    assert (answer.status, answer.data["run"], answer.data["state"]) == (202, 2, "queued")
    again = await redriven(api, letter["id"])
    assert (again.status, again.data["duplicate"]) == (200, True)
    assert len(await world.stored(function)) == 1
    await world.end(Run(function, "poison", 2), state="failed")
    late = await redriven(api, letter["id"])
    assert (late.status, late.data["run"]) == (200, 2)  # the letter of run 1 never makes a third run


async def test_all_dead_letters_of_a_function_are_redriven(world: World, api: Api, store: ResultStore) -> None:
    function, other = await world.function(), await world.function()
    for number in range(3):
        await moved(world, api, store, function, f"d{number}", state="dead_lettered", error="boom")
    await moved(world, api, store, other, "not-mine", state="dead_lettered", error="boom")
    body = {"serverlessRequestID": function.name}
    first = await api.call("POST", f"{LETTERS}/redrive", body)
    assert first.data == {"redriven": 3, "already": 0, "refused": 0}
    again = await api.call("POST", f"{LETTERS}/redrive", body)
    assert again.data == {"redriven": 0, "already": 3, "refused": 0}
    assert len(await world.stored(function)) == 3
    assert await world.stored(other) == []


async def test_a_message_that_could_not_be_read_is_shown_and_not_redriven(api: Api, store: ResultStore) -> None:
    letter = DeadLetter(
        "INVOCATIONS.7", "malformed", datetime.now(UTC), "malformed_message", "no JSON", 1, content=b"\xff"
    )
    await store.save(Batch(dead_letters=[letter]))
    shown = await api.call("GET", f"{LETTERS}/INVOCATIONS.7")
    assert (shown.status, shown.data["contentBase64"]) == (200, "/w==")
    answer = await redriven(api, "INVOCATIONS.7")
    assert (answer.status, answer.code) == (409, "invocation_state")


async def test_a_dead_letter_that_does_not_exist_is_a_404(api: Api) -> None:
    for answer in (await api.call("GET", f"{LETTERS}/nothing"), await redriven(api, "nothing")):
        assert (answer.status, answer.code) == (404, "dead_letter_not_found")
    assert (await api.call("GET", LETTERS, params={"namespace": "kube-system"})).status == 403
