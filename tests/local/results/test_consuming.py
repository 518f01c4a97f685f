"""From the broker into the database. `tests/kube/results` runs the same on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from nats.js.errors import NotFoundError

from equipment.mutation import mutant
from equipment.nats import NatsServer, running_nats
from equipment.queue import accept, end
from equipment.results import ECHO, ResultDatabase, a_result, a_run, an_acceptance, an_invocation
from equipment.waiting import eventually
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.messages import encode
from gpu_runtime.serverless.results.base import DeadLetterQuery, ResultStore, RunQuery
from gpu_runtime.serverless.results.consuming import Consumer, consumers
from gpu_runtime.serverless.results.listening import AdvisoryListener
from gpu_runtime.serverless.results.metrics import Metrics
from local.results.process import CrashPoint, StoreProcess

CONSUMING = "serverless/results/consuming.py"
PULLING = "serverless/results/pulling.py"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running


@pytest.fixture
async def broker(server: NatsServer) -> AsyncIterator[Broker]:
    async with server.connection() as connected:
        yield connected


@pytest.fixture
async def store(database: ResultDatabase) -> AsyncIterator[ResultStore]:
    async with database.store() as opened:
        yield opened


@asynccontextmanager
async def consuming(broker: Broker, store: ResultStore) -> AsyncIterator[list[Consumer]]:
    metrics = Metrics()
    working = consumers(store, broker, metrics, ack_wait_seconds=30)
    tasks = [asyncio.create_task(each.run()) for each in working]
    tasks.append(asyncio.create_task(AdvisoryListener(store, broker, metrics).run()))
    try:
        yield working
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def unacknowledged(broker: Broker) -> int:
    """Messages that the result store has not finished."""
    total = 0
    for stream, name in ((INVOCATIONS, "result-store-inv"), (RESULTS, "result-store-res")):
        info = await broker.stream.consumer_info(stream, name)
        total += (info.num_pending or 0) + (info.num_ack_pending or 0)
    return total


async def everything_is_stored(broker: Broker) -> None:
    async def nothing_waits() -> bool:
        try:
            return await unacknowledged(broker) == 0
        except NotFoundError:
            return False  # no process has made its consumers yet

    await eventually(nothing_waits, what="all messages are acknowledged")


async def stored_end(store: ResultStore, invocation_id: str = "inv-1") -> bool:
    found = await store.get_last(ECHO, invocation_id)
    return found is not None and found.end is not None


async def test_what_the_broker_holds_reaches_the_database(broker: Broker, store: ResultStore) -> None:
    await accept(broker, an_invocation(a_run(), attributes={"k": "v"}))
    async with consuming(broker, store):
        await end(broker, a_result(a_run()))
        await eventually(lambda: stored_end(store), what="the end is stored")
        await everything_is_stored(broker)

    found = await store.get(a_run())
    assert found is not None
    assert (found.acceptance, found.end) == (an_acceptance(a_run(), attributes={"k": "v"}), a_result(a_run()))


async def test_a_thousand_messages_reach_the_database_with_two_replicas(
    server: NatsServer, broker: Broker, database: ResultDatabase, store: ResultStore
) -> None:
    for start in range(0, 500, 50):
        runs = [a_run(f"inv-{number}") for number in range(start, start + 50)]
        await asyncio.gather(*(accept(broker, an_invocation(run)) for run in runs))
        await asyncio.gather(*(end(broker, a_result(run)) for run in runs))
    async with (
        server.connection("other") as other,
        database.store() as second,
        consuming(broker, store),
        consuming(other, second),
    ):
        await eventually(lambda: stored_end(store, "inv-499"), what="the last end is stored")
        await everything_is_stored(broker)

    page = await store.list_runs(RunQuery(limit=1000))
    assert len(page.items) == 500
    assert all(each.acceptance and each.end for each in page.items)


async def test_a_large_result_is_copied(broker: Broker, store: ResultStore) -> None:
    content = b"x" * (bodies.INLINE_BYTES * 3)
    body = await bodies.store(broker, a_run(), content, is_json=False)
    await end(broker, a_result(a_run(), body=body))
    async with consuming(broker, store):
        await eventually(lambda: stored_end(store), what="the end is stored")

    assert await store.body(a_run(), "result") == content


@mutant(CONSUMING, "except BodyGone as error:", "except ZeroDivisionError as error:")
async def test_an_end_is_stored_even_if_its_large_result_is_gone(broker: Broker, store: ResultStore) -> None:
    body = await bodies.store(broker, a_run(), b"x" * (bodies.INLINE_BYTES + 1), is_json=False)
    await broker.stream.purge_stream("BODIES")
    await end(broker, a_result(a_run(), body=body))
    async with consuming(broker, store):
        await eventually(lambda: stored_end(store), what="the end is stored")
        await everything_is_stored(broker)

    assert await store.body(a_run(), "result") is None


MALFORMED = {
    "nothing": b"",
    "not JSON": b"\x00\xff{",
    "another type": b'["a"]',
    "fields are missing": b'{"invocationID":"inv-1"}',
    "half a character": b'{"error":"\\ud800"}',
    "deep": b'{"payload":{"json":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "another run": encode(a_result(a_run("another"))),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_message_becomes_a_dead_letter_that_explains_itself(
    broker: Broker, store: ResultStore, data: bytes
) -> None:
    await publish(broker, "inv.runtime-instance.echo.inv-1.1.n", data)
    await publish(broker, "res.runtime-instance.echo.inv-1.1", data)
    await publish(broker, "inv.not.a.subject.of.ours", data)
    await end(broker, a_result(a_run("good")))
    async with consuming(broker, store):
        await eventually(lambda: stored_end(store, "good"), what="the good end is stored")
        await everything_is_stored(broker)

    letters = (await store.list_dead_letters(DeadLetterQuery(source="malformed"))).items
    assert {letter.subject for letter in letters} == {
        "inv.runtime-instance.echo.inv-1.1.n",
        "res.runtime-instance.echo.inv-1.1",
        "inv.not.a.subject.of.ours",
    }
    for letter in letters:
        whole = await store.get_dead_letter(letter.id)
        assert whole is not None
        assert (whole.content, whole.failure_class) == (data, "malformed_message")
        assert whole.error
    found = await store.get(a_run())
    assert found is not None
    assert found.acceptance is not None
    assert found.acceptance.message is None
    assert found.end is not None
    assert (found.end.state, found.end.failureClass) == ("dead_lettered", "malformed_message")


async def test_a_message_that_the_broker_gave_up_on_becomes_a_dead_letter(broker: Broker, store: ResultStore) -> None:
    async with consuming(broker, store):
        subscription = await broker.stream.pull_subscribe("inv.>", durable="foreign", stream=INVOCATIONS)
        info = await broker.stream.consumer_info(INVOCATIONS, "foreign")
        config = info.config
        assert config is not None
        config.max_deliver = 1
        await broker.stream.add_consumer(INVOCATIONS, config)
        await accept(broker, an_invocation(a_run()))
        (message,) = await subscription.fetch(1, timeout=30)
        await message.nak()

        async def letter() -> bool:
            # The broker tells when it would deliver again.
            with pytest.raises(TimeoutError):
                await subscription.fetch(1, timeout=0.1)
            return bool((await store.list_dead_letters(DeadLetterQuery(source="max_deliver"))).items)

        await eventually(letter, what="the dead letter is stored")

    (found,) = (await store.list_dead_letters(DeadLetterQuery(source="max_deliver"))).items
    assert (found.run, found.consumer, found.attempts) == (a_run(), "foreign", 1)
    whole = await store.get_dead_letter(found.id)
    assert whole is not None
    assert whole.content == encode(an_invocation(a_run()))


async def test_the_consumer_comes_back_after_the_broker_was_killed(
    server: NatsServer, broker: Broker, store: ResultStore
) -> None:
    async with consuming(broker, store):
        await end(broker, a_result(a_run("before")))
        await eventually(lambda: stored_end(store, "before"), what="the first end is stored")
        server.kill()
        server.start()
        await server.wait_until_it_answers()
        async with server.connection("publisher") as other:
            await end(other, a_result(a_run("after")))
        await eventually(lambda: stored_end(store, "after"), what="the second end is stored")


@mutant(PULLING, 'if headers.get("Status") == "503":', "if False:")
async def test_a_consumer_that_was_deleted_is_made_again(broker: Broker, store: ResultStore) -> None:
    async with consuming(broker, store):
        await end(broker, a_result(a_run("before")))
        await eventually(lambda: stored_end(store, "before"), what="the first end is stored")
        await broker.stream.delete_consumer(RESULTS, "result-store-res")
        await end(broker, a_result(a_run("after")))
        await eventually(lambda: stored_end(store, "after"), what="the second end is stored")


async def test_the_consumer_waits_for_the_streams(tmp_path: Path, store: ResultStore) -> None:
    async with (
        running_nats(tmp_path / "other", with_streams=False) as server,
        server.connection() as broker,
        consuming(broker, store) as working,
    ):
        await eventually(lambda: all("stream not found" in str(each.broker_problem) for each in working))


@pytest.mark.parametrize("crash", ["before-commit", "after-commit"])
async def test_a_process_that_is_killed_before_it_acknowledges_loses_and_doubles_nothing(
    tmp_path: Path, server: NatsServer, broker: Broker, database: ResultDatabase, crash: CrashPoint
) -> None:
    for number in range(20):
        await accept(broker, an_invocation(a_run(f"inv-{number}")))
        await end(broker, a_result(a_run(f"inv-{number}"), "dead_lettered", error=f"error {number}"))
    replica = StoreProcess(tmp_path / "replica", server, database, ackWaitSeconds=1)

    for _ in range(3):
        with replica.running(crash) as process:
            assert await asyncio.to_thread(process.wait, 120) == -9, replica.log.read_text()
    async with database.reader() as reader:
        page = await reader.list_runs(RunQuery(limit=100))
        assert bool(page.items) == (crash == "after-commit")
    with replica.running():
        await everything_is_stored(broker)

    async with database.reader() as reader:
        page = await reader.list_runs(RunQuery(limit=100))
        letters = await reader.list_dead_letters(DeadLetterQuery(limit=100))
    assert {each.run.invocation_id: each.end.error for each in page.items if each.end and each.acceptance} == {
        f"inv-{number}": f"error {number}" for number in range(20)
    }
    assert len(letters.items) == 20


async def test_the_process_says_what_it_waits_for_and_ends_on_sigterm(
    tmp_path: Path, server: NatsServer, broker: Broker, database: ResultDatabase
) -> None:
    replica = StoreProcess(tmp_path / "replica", server, database)
    url = f"http://127.0.0.1:{replica.health.port}"

    async def ready(session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    with replica.running() as process:
        async with aiohttp.ClientSession() as session:
            await eventually(lambda: ready(session), what="the process is ready")
            await end(broker, a_result(a_run()))
            await everything_is_stored(broker)
            server.kill()

            async def not_ready() -> bool:
                async with session.get(f"{url}/readyz") as answer:
                    return answer.status == 503 and "broker" in (await answer.json())["problems"]

            await eventually(not_ready, what="the process says that the broker is gone")
            async with session.get(f"{url}/healthz") as answer:
                assert answer.status == 200
            async with session.get(f"{url}/metrics") as answer:
                text = await answer.text()
            assert 'result_store_messages_total{consumer="result-store-res"} 1.0' in text
            assert "result_store_pending_messages" in text
        process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0, replica.log.read_text()
