"""The backlog follows the real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from equipment.clock import FakeClock
from equipment.mutation import mutant
from equipment.nats import SMALL_STREAMS, NatsServer, running_nats
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import EARLY_END_SECONDS, LONGEST_SECONDS, Backlog
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.following import Followed
from gpu_runtime.serverless.messages import DEADLINE
from gpu_runtime.serverless.subjects import Function, Priority, Run

ECHO = Function("runtime-instance", "echo")
OTHER = Function("runtime-instance", "other")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running


@pytest.fixture
async def broker(server: NatsServer) -> AsyncIterator[Broker]:
    async with server.connection() as connected:
        yield connected


@asynccontextmanager
async def followed(broker: Broker, clock: FakeClock | None = None) -> AsyncIterator[Backlog]:
    backlog = Backlog(broker, clock or FakeClock())
    task = asyncio.create_task(backlog.run())
    try:
        await eventually(lambda: backlog.loaded, what="everything is read")
        yield backlog
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def accept(
    broker: Broker, name: str, *, function: Function = ECHO, priority: Priority = "normal", deadline: float = 2e9
) -> Run:
    run = Run(function, name, 1)
    headers = {DEADLINE: str(int(deadline * 1000))}
    stored = await publish_once(
        broker, subjects.accepted(run, priority), b"{}", headers=headers, free=subjects.accepted_any(run)
    )
    assert stored is not None
    return run


async def end(broker: Broker, run: Run) -> None:
    assert await publish_once(broker, subjects.ended(run), b"{}") is not None


async def has_load(backlog: Backlog, load: int, function: Function = ECHO) -> None:
    await eventually(lambda: backlog.load(function) == load, what=f"{load} unfinished runs")


async def test_an_empty_broker_is_loaded_and_has_no_load(broker: Broker) -> None:
    async with followed(broker) as backlog:
        assert backlog.load(ECHO) == 0
        assert backlog.functions() == []
        assert backlog.next_deadline() is None


async def test_accepted_invocations_are_the_load_until_they_end(broker: Broker) -> None:
    first = await accept(broker, "a")
    async with followed(broker) as backlog:
        assert backlog.runs(ECHO) == [first]
        second = await accept(broker, "b")
        await accept(broker, "c", function=OTHER)
        await has_load(backlog, 2)
        await end(broker, first)
        await has_load(backlog, 1)
        assert backlog.runs(ECHO) == [second]
        assert set(backlog.functions()) == {ECHO, OTHER}
        await end(broker, second)
        await has_load(backlog, 0)
        assert backlog.functions() == [OTHER]


async def test_a_new_process_reads_what_is_unfinished_and_nothing_else(broker: Broker) -> None:
    runs = [await accept(broker, f"i-{number}") for number in range(20)]
    for run in runs[::2]:
        await end(broker, run)
    async with followed(broker) as backlog:
        await has_load(backlog, 10)
        assert backlog.runs(ECHO) == runs[1::2]
        assert backlog._early == {}


@mutant("serverless/backlog.py", "before = 0 if found.is_urgent else len(queue.urgent)", "before = 0")
async def test_urgent_invocations_are_ahead_of_others(broker: Broker) -> None:
    async with followed(broker) as backlog:
        normal = [await accept(broker, f"n-{number}") for number in range(3)]
        urgent = [await accept(broker, f"u-{number}", priority="high") for number in range(2)]
        await has_load(backlog, 5)
        assert [backlog.ahead(run) for run in [*urgent, *normal]] == [0, 1, 2, 3, 4]
        await end(broker, normal[0])
        await end(broker, urgent[0])
        await has_load(backlog, 3)
        assert [backlog.ahead(run) for run in [urgent[1], *normal[1:]]] == [0, 1, 2]
        assert backlog.ahead(normal[0]) is None


async def test_who_waits_for_an_end_is_told(broker: Broker) -> None:
    async with followed(broker) as backlog:
        run = await accept(broker, "a")
        with backlog.ending(run) as first, backlog.ending(run) as second:
            await end(broker, run)
            async with asyncio.timeout(30):
                await first.wait()
                await second.wait()
        assert backlog._waiting == {}


async def test_changes_are_told_with_their_function(broker: Broker) -> None:
    told: list[Function] = []
    async with followed(broker) as backlog:
        backlog.subscribe(told.append)
        await end(broker, await accept(broker, "a", function=OTHER))
        await eventually(lambda: told == [OTHER, OTHER], what="both changes are told")


async def test_a_run_past_its_deadline_is_given_once_and_again_when_asked(broker: Broker) -> None:
    async with followed(broker) as backlog:
        late = await accept(broker, "late", deadline=100.0)
        done = await accept(broker, "done", deadline=90.0)
        await accept(broker, "later", deadline=200.0)
        await end(broker, done)
        await has_load(backlog, 2)
        assert backlog.next_deadline() == 100.0
        assert backlog.overdue(99.0) == []
        assert backlog.overdue(100.0) == [late]
        assert backlog.overdue(100.0) == []
        backlog.again(late, 150.0)
        assert backlog.overdue(199.0) == [late]
        assert backlog.next_deadline() == 200.0


async def test_deadlines_of_ended_runs_are_not_kept_until_they_pass(broker: Broker) -> None:
    async with followed(broker) as backlog:
        stays = await accept(broker, "stays")
        await has_load(backlog, 1)
        for number in range(20_000):
            run = Run(ECHO, f"i-{number}", 1)
            backlog._on_accepted(Followed(subjects.accepted(run, "normal"), number + 10, 1.0, {DEADLINE: "9000000"}))
            backlog._on_ended(Followed(subjects.ended(run), number + 10, 1.0, {}))
        assert len(backlog._deadlines) < 5000
        assert (backlog.runs(ECHO), backlog.next_deadline()) == ([stays], 2e9)


@pytest.mark.parametrize("text", ["", "soon", "1e400", "nan"])
async def test_an_invocation_without_a_readable_deadline_gets_the_longest(broker: Broker, text: str) -> None:
    async with followed(broker) as backlog:
        run = Run(ECHO, "a", 1)
        await publish_once(broker, subjects.accepted(run, "normal"), b"{}", headers={DEADLINE: text})
        await has_load(backlog, 1)
        found = backlog.find(run)
        assert found is not None
        assert found.deadline == found.accepted + LONGEST_SECONDS


async def test_messages_with_other_subjects_are_ignored(broker: Broker) -> None:
    async with followed(broker) as backlog:
        await publish_once(broker, "inv.something.else", b"{}")
        await publish_once(broker, "res.something.else", b"{}")
        await accept(broker, "a")
        await has_load(backlog, 1)


@mutant("serverless/backlog.py", "        if run in self._early:", "        if False:")
async def test_an_end_that_is_seen_before_its_invocation_counts(broker: Broker) -> None:
    """The two streams are followed independently."""
    clock = FakeClock()
    async with followed(broker, clock) as backlog:
        run = Run(ECHO, "a", 1)
        await end(broker, run)
        await eventually(lambda: run in backlog._early, what="the end is seen")
        await accept(broker, "a")
        await accept(broker, "b")
        await has_load(backlog, 1)
        assert backlog.find(run) is None
        assert backlog._early == {}


async def test_ends_of_invocations_that_are_not_stored_are_forgotten(broker: Broker) -> None:
    clock = FakeClock()
    async with followed(broker, clock) as backlog:
        run = Run(ECHO, "a", 1)
        await end(broker, run)
        await eventually(lambda: run in backlog._early, what="the end is seen")
        clock.advance(EARLY_END_SECONDS)
        await eventually(lambda: not backlog._early and not backlog._early_order, what="the end is forgotten")


async def test_nothing_is_missed_or_counted_twice_when_the_broker_is_killed(server: NatsServer) -> None:
    async with server.connection() as own, server.connection("publisher") as publisher, followed(own) as backlog:
        runs = [await accept(publisher, f"before-{number}") for number in range(10)]
        await has_load(backlog, 10)
        for turn in range(2):
            server.kill()
            await eventually(lambda: backlog.problem, what="it is noticed")
            assert backlog.loaded
            server.start()
            await publisher.connected()
            await eventually(lambda: not publisher.problem, what="the broker is back")
            runs.append(await accept(publisher, f"after-{turn}"))
            await end(publisher, runs.pop(0))
            await eventually(lambda: backlog.runs(ECHO) == runs, what="it has seen the end and the new one")
            await eventually(lambda: not backlog.problem, what="it is complete again")


async def test_a_consumer_that_disappears_is_replaced(broker: Broker) -> None:
    async with followed(broker) as backlog:
        await accept(broker, "a")
        await has_load(backlog, 1)
        for consumer in await broker.stream.consumers_info(INVOCATIONS):
            await broker.stream.delete_consumer(INVOCATIONS, consumer.name)
        await accept(broker, "b")
        await has_load(backlog, 2)


@mutant("serverless/following.py", "if delivered != self._delivered + 1:", "if delivered < 0:")
async def test_a_message_that_is_lost_on_the_way_comes_again(broker: Broker) -> None:
    async with followed(broker) as backlog:
        await accept(broker, "a")
        await has_load(backlog, 1)
        backlog._accepted._delivered -= 1  # as if the next message was not the next one
        await accept(broker, "b")
        await accept(broker, "c")
        await has_load(backlog, 3)


async def test_a_stream_that_was_made_anew_is_read_from_its_beginning(broker: Broker) -> None:
    async with followed(broker) as backlog:
        for number in range(5):
            await accept(broker, f"old-{number}")
        await has_load(backlog, 5)
        await broker.stream.delete_stream(INVOCATIONS)
        await eventually(lambda: backlog.problem, what="it is noticed")
        await streams.ensure(broker, SMALL_STREAMS)
        new = await accept(broker, "new")
        await eventually(lambda: backlog.runs(ECHO) == [new], what="only the new one is left")
        assert [backlog.ahead(new), backlog.next_deadline()] == [0, 2e9]


async def test_a_process_that_starts_before_the_streams_waits_for_them(tmp_path: Path) -> None:
    async with running_nats(tmp_path, with_streams=False) as server, server.connection() as broker:
        backlog = Backlog(broker)
        task = asyncio.create_task(backlog.run())
        await eventually(lambda: "not found" in backlog.problem, what="the missing stream is named")
        assert not backlog.loaded
        await streams.ensure(broker, SMALL_STREAMS)
        await eventually(lambda: backlog.loaded, what="everything is read")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
