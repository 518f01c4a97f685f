"""What is removed from the broker and from the database, and what is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer, running_nats
from equipment.queue import accept, end
from equipment.results import ResultDatabase, a_result, a_run, an_acceptance, an_end, an_invocation
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, publish
from gpu_runtime.serverless.broker.streams import BODIES, INVOCATIONS, RESULTS
from gpu_runtime.serverless.results.base import Batch, ResultStore, RunQuery
from gpu_runtime.serverless.results.housekeeping import Housekeeping, Limits
from gpu_runtime.serverless.results.metrics import Metrics
from gpu_runtime.serverless.subjects import Run

NOW = datetime(2026, 5, 10, tzinfo=UTC)
HOUSEKEEPING = "serverless/results/housekeeping.py"


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


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


def housekeeping(broker: Broker, store: ResultStore, **limits: object) -> Housekeeping:
    usual = Limits(
        broker_keep=timedelta(days=1),
        database_keep=timedelta(days=3),
        database_bytes=2**40,
        purges_per_second=10_000,
        every=timedelta(seconds=1),
    )
    return Housekeeping(store, broker, Limits(**{**vars(usual), **limits}), Metrics(), FixedClock())


def ago(**delta: float) -> datetime:
    return NOW - timedelta(**delta)


async def in_broker(broker: Broker, run: Run) -> list[str]:
    """The streams that hold something of the run."""
    filters = {INVOCATIONS: subjects.accepted_any(run), RESULTS: subjects.ended(run), BODIES: f"body.{run.scope}.>"}
    return [stream for stream, subject in filters.items() if await last(broker, stream, subject)]


async def publish_run(broker: Broker, run: Run, state: str = "succeeded") -> None:
    await accept(broker, an_invocation(run))
    await end(broker, a_result(run, state))


async def test_a_stored_run_past_its_window_goes_from_the_broker_alone(broker: Broker, store: ResultStore) -> None:
    old, young, neighbour = a_run("inv-1"), a_run("young"), a_run("inv-11")
    for run in (old, young, neighbour):
        body = await bodies.store(broker, run, b"x" * (bodies.INLINE_BYTES + 1), is_json=False)
        await publish_run(broker, run)
    ends = [an_end(old, ended_at=ago(hours=25), body=body), an_end(young, ended_at=ago(hours=23), body=body)]
    await store.save(Batch([an_acceptance(old), an_acceptance(young)], ends))

    await housekeeping(broker, store).sweep()

    everywhere = [INVOCATIONS, RESULTS, BODIES]
    assert await in_broker(broker, old) == []
    assert await in_broker(broker, young) == everywhere
    assert await in_broker(broker, neighbour) == everywhere
    assert await store.get(old) is not None
    assert await store.finished(NOW, 9) != []
    assert old not in [each.run for each in await store.finished(NOW, 9)]


@mutant(HOUSEKEEPING, "if not finished.acceptance_stored and", "if False and")
async def test_an_invocation_that_is_not_in_the_database_stays_at_the_broker(
    broker: Broker, store: ResultStore
) -> None:
    await publish_run(broker, a_run())
    await store.save(Batch(ends=[an_end(a_run(), ended_at=ago(days=2))]))

    await housekeeping(broker, store).sweep()
    before = await in_broker(broker, a_run())
    await store.save(Batch([an_acceptance(a_run())]))
    await housekeeping(broker, store).sweep()

    assert before == [INVOCATIONS, RESULTS]
    assert await in_broker(broker, a_run()) == []


@mutant(
    HOUSEKEEPING,
    "await self._purge_subject(INVOCATIONS, subjects.accepted_any(run))",
    "await self._purge_subject(RESULTS, subjects.ended(run))",
)
async def test_the_invocation_goes_before_its_end(broker: Broker, store: ResultStore) -> None:
    """A worker that gets an invocation without an end runs it."""
    body = await bodies.store(broker, a_run(), b"x" * (bodies.INLINE_BYTES + 1), is_json=False)
    await publish_run(broker, a_run())
    await store.save(Batch([an_acceptance(a_run())], [an_end(a_run(), ended_at=ago(days=2), body=body)]))
    requests = await broker.nats.subscribe("$JS.API.STREAM.PURGE.*")

    await housekeeping(broker, store).sweep()

    asked = [(await requests.next_msg(60)).subject for _ in range(3)]
    assert asked == [f"$JS.API.STREAM.PURGE.{stream}" for stream in (INVOCATIONS, RESULTS, BODIES)]


async def test_a_run_whose_invocation_the_broker_lost_is_purged_as_well(broker: Broker, store: ResultStore) -> None:
    await end(broker, a_result(a_run()))
    await store.save(Batch(ends=[an_end(a_run(), ended_at=ago(days=2))]))

    await housekeeping(broker, store).sweep()

    assert await in_broker(broker, a_run()) == []


async def test_the_large_payload_of_a_run_that_may_be_redriven_is_copied_first(
    broker: Broker, store: ResultStore
) -> None:
    content = b"x" * (bodies.INLINE_BYTES * 2)
    runs = {"failed": a_run("failed"), "succeeded": a_run("succeeded")}
    for state, run in runs.items():
        payload = await bodies.store(broker, run, content, is_json=False)
        await store.save(Batch([an_acceptance(run, payload=payload)], [an_end(run, state, ago(days=2))]))

    await housekeeping(broker, store).sweep()

    assert await store.body(runs["failed"], "payload") == content
    assert await store.body(runs["succeeded"], "payload") is None
    for run in runs.values():
        assert await in_broker(broker, run) == []


@mutant(HOUSEKEEPING, "if fill > FULL else self._limits.broker_keep", "if False else self._limits.broker_keep")
async def test_finished_runs_make_room_when_a_stream_is_more_than_half_full(broker: Broker, store: ResultStore) -> None:
    """Otherwise a busy day would fill the queue with runs that are all finished."""
    young, youngest = a_run("young"), a_run("youngest")
    for run in (young, youngest):
        await publish_run(broker, run)
    ends = [an_end(young, ended_at=ago(minutes=6)), an_end(youngest, ended_at=ago(seconds=30))]
    await store.save(Batch([an_acceptance(run) for run in (young, youngest)], ends))
    await housekeeping(broker, store).sweep()
    before = await in_broker(broker, young)
    for number in range(40):
        await publish(broker, f"inv.runtime-instance.echo.filler-{number}.1.n", b"x" * 1_000_000)

    await housekeeping(broker, store).sweep()

    assert before == [INVOCATIONS, RESULTS]
    assert await in_broker(broker, young) == []
    assert await in_broker(broker, youngest) == [INVOCATIONS, RESULTS]


@mutant(HOUSEKEEPING, "return bool(purged) and len(due) == PURGE_BATCH", "return False")
async def test_one_sweep_purges_more_than_one_batch_and_then_deletes_what_is_old(
    broker: Broker, store: ResultStore
) -> None:
    runs = [a_run(f"inv-{number}") for number in range(250)]
    await store.save(
        Batch(
            [an_acceptance(run) for run in runs],
            [an_end(run, ended_at=ago(days=4 if number % 2 else 2)) for number, run in enumerate(runs)],
        )
    )

    await housekeeping(broker, store).sweep()

    assert await store.finished(NOW, 9) == []
    left = (await store.list_runs(RunQuery(limit=1000))).items
    assert {each.run for each in left} == set(runs[::2])


async def test_the_oldest_are_deleted_while_the_database_is_too_large(broker: Broker, store: ResultStore) -> None:
    for number in range(4):
        run = a_run(f"inv-{number}")
        await store.save(Batch([an_acceptance(run)], [an_end(run, ended_at=ago(hours=30 - number))]))
        await store.save_body(run, "result", b"x" * 1_000_000)
    await store.save(Batch([an_acceptance(a_run("unfinished"))]))
    await store.save(Batch([an_acceptance(a_run("young"))], [an_end(a_run("young"), ended_at=ago(hours=1))]))

    await housekeeping(broker, store, database_bytes=2_500_000).sweep()

    left = {each.run.invocation_id for each in (await store.list_runs(RunQuery())).items}
    assert left == {"inv-2", "inv-3", "unfinished", "young"}
    assert await store.size() < 2_500_000


async def test_a_worker_that_is_late_by_more_than_the_window_changes_nothing(
    broker: Broker, store: ResultStore
) -> None:
    """After the purge the broker takes a second end: the database keeps the first, and the second one goes, too."""
    await publish_run(broker, a_run(), "failed")
    await store.save(Batch([an_acceptance(a_run())], [an_end(a_run(), "failed", ago(days=2))]))
    await housekeeping(broker, store).sweep()

    await end(broker, a_result(a_run(), "succeeded"))
    await store.save(Batch(ends=[an_end(a_run(), "succeeded", NOW)]))
    await housekeeping(broker, store).sweep()

    found = await store.get(a_run())
    assert found is not None
    assert found.state == "failed"
    assert await in_broker(broker, a_run()) == []


async def test_a_purge_that_the_broker_does_not_answer_leaves_the_run_for_the_next_time(
    server: NatsServer, broker: Broker, store: ResultStore
) -> None:
    await publish_run(broker, a_run())
    await store.save(Batch([an_acceptance(a_run())], [an_end(a_run(), ended_at=ago(days=2))]))
    server.kill()
    with pytest.raises(Exception, match="broker"):
        await housekeeping(broker, store).sweep()
    server.start()
    await server.wait_until_it_answers()
    async with server.connection("again") as connected:
        await housekeeping(connected, store).sweep()
        assert await in_broker(connected, a_run()) == []
