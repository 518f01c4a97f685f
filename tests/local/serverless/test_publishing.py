"""The write that decides: a publish that succeeds only once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from equipment.nats import SMALL_STREAMS, NatsServer, running_nats
from gpu_runtime.config.nats import NatsSettings, StreamSettings
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies, streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import Full, NoAnswer
from gpu_runtime.serverless.broker.publishing import last, last_direct, publish, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.subjects import Function, Priority, Run

ECHO = Function("runtime-instance", "echo")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path) as running:
        yield running


@pytest.fixture
async def broker(server: NatsServer) -> AsyncIterator[Broker]:
    async with server.connection() as connected:
        yield connected


@pytest.mark.parametrize("round_", range(5))
async def test_one_of_many_publishers_wins_whatever_the_priority(server: NatsServer, round_: int) -> None:
    run = Run(ECHO, f"inv-{round_}", 1)
    priorities: list[Priority] = ["normal", "high"]
    async with server.connection("first") as first, server.connection("second") as second:
        stored = await asyncio.gather(
            *(
                publish_once(each, subjects.accepted(run, priority), b"{}", free=subjects.accepted_any(run))
                for each in (first, second)
                for priority in priorities
                for _ in range(5)
            )
        )
    assert len([sequence for sequence in stored if sequence is not None]) == 1


async def test_the_first_end_stays(broker: Broker) -> None:
    run = Run(ECHO, "inv-1", 1)
    assert await publish_once(broker, subjects.ended(run), b"first") is not None
    assert await publish_once(broker, subjects.ended(run), b"second") is None
    from_leader = await last(broker, RESULTS, subjects.ended(run))
    from_replica = await last_direct(broker, RESULTS, subjects.ended(run))
    assert from_leader is not None
    assert from_replica is not None
    assert from_leader.data == from_replica.data == b"first"
    assert (from_leader.sequence, from_leader.stored_at) == (from_replica.sequence, from_replica.stored_at)


async def test_headers_and_time_are_read_as_they_were_written(broker: Broker) -> None:
    run = Run(ECHO, "inv-1", 1)
    await publish_once(broker, subjects.accepted(run, "high"), b"{}", headers={"Gr-Hash": "a:b c"})
    for found in (
        await last(broker, INVOCATIONS, subjects.accepted_ids("inv-1")),
        await last_direct(broker, INVOCATIONS, subjects.accepted(run, "high")),
    ):
        assert found is not None
        assert found.headers["Gr-Hash"] == "a:b c"
        assert subjects.parse_accepted(found.subject) == (run, "high")


async def test_nothing_is_read_where_nothing_is_stored(broker: Broker) -> None:
    run = Run(ECHO, "inv-1", 1)
    assert await last(broker, RESULTS, subjects.ended(run)) is None
    assert await last_direct(broker, RESULTS, subjects.ended(run)) is None


async def test_a_full_stream_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    async with running_nats(tmp_path, with_streams=False) as server, server.connection() as broker:
        await streams.ensure(broker, replace(SMALL_STREAMS, invocationsBytes=1024**2))
        chunk = b"x" * 400_000
        for number in range(2):
            await publish(broker, f"inv.n.f.a{number}.1.n", chunk)
        with pytest.raises(Full):
            await publish(broker, "inv.n.f.a2.1.n", chunk)
        kept = await last(broker, INVOCATIONS, "inv.n.f.a0.1.n")
        assert kept is not None
        assert kept.data == chunk


async def test_a_stream_with_other_settings_is_reported_and_left_alone(server: NatsServer, broker: Broker) -> None:
    found = await streams.ensure(broker, StreamSettings(invocationsBytes=7 * 1024**2))
    assert any("INVOCATIONS has max_bytes" in line for line in found), found
    live = await streams.read(broker, INVOCATIONS)
    assert live is not None
    assert live["max_bytes"] == 64 * 1024**2


async def test_a_large_body_is_read_back_whole(broker: Broker) -> None:
    run, data = Run(ECHO, "inv-1", 1), bytes(range(256)) * 6000
    body = await bodies.store(broker, run, data, is_json=False)
    assert body.ref is not None
    assert await bodies.load(broker, run, body) == data


async def test_a_large_body_that_lost_a_chunk_is_gone(server: NatsServer, broker: Broker) -> None:
    run = Run(ECHO, "inv-1", 1)
    body = await bodies.store(broker, run, b"x" * 2_000_000, is_json=False)
    assert body.ref is not None
    await broker.stream.purge_stream("BODIES", subject=f"{subjects.body(run, body.ref.key)}.1")
    with pytest.raises(bodies.BodyGone):
        await bodies.load(broker, run, body)


async def test_a_broker_that_is_away_is_no_answer_and_comes_back(server: NatsServer, broker: Broker) -> None:
    run = Run(ECHO, "inv-1", 1)
    await publish_once(broker, subjects.ended(run), b"first")
    server.kill()
    with pytest.raises(NoAnswer):
        await publish_once(broker, subjects.ended(run), b"second", seconds=0.5)
    server.start()
    async with asyncio.timeout(60):
        await broker.connected()
    assert await publish_once(broker, subjects.ended(run), b"third") is None


async def test_a_connection_waits_for_a_broker_that_is_not_there_yet(tmp_path: Path) -> None:
    async with running_nats(tmp_path, with_streams=False) as server:
        server.kill()
        async with Broker(NatsSettings(url=server.settings.url), "early") as early:
            with pytest.raises(NoAnswer, match="no connection"):
                await early.request("anything")
            server.start()
            async with asyncio.timeout(60):
                await early.connected()


@pytest.mark.parametrize("hostile", ["", "a.b", "*", ">", "a b", "a\r\nb", "x" * 65, "-a", "ä"])
def test_an_id_that_is_not_one_token_never_becomes_a_subject(hostile: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a subject"):
        subjects.ended(Run(ECHO, hostile, 1))


@mutant("serverless/broker/client.py", "        raise asyncio.CancelledError", "        return")
async def test_a_task_that_is_cancelled_while_it_sends_or_asks_ends(broker: Broker) -> None:
    """nats-py drops a cancellation that comes at the wrong moment."""

    async def send() -> None:
        while True:
            await broker.nats.publish("out.n.f.a.1", b"x")
            await broker.request("$JS.API.INFO")

    for ticks in range(40):
        task = asyncio.create_task(send())
        for _ in range(ticks):
            await asyncio.sleep(0)  # the task goes on by one step
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=20)
        assert done, f"cancelled after {ticks} steps, it runs on"
        assert task.cancelled()
