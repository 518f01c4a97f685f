"""What is known of workers by their heartbeats, on the real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from equipment.clock import FakeClock
from equipment.mutation import mutant
from equipment.nats import NatsServer, running_nats
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.heartbeats import EXPIRY_SECONDS, Heartbeats
from gpu_runtime.serverless.messages import WorkerHeartbeat, encode
from gpu_runtime.serverless.subjects import Function

ECHO = Function("runtime-instance", "echo")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with running_nats(tmp_path, with_streams=False) as running:
        yield running


@asynccontextmanager
async def heard(broker: Broker, clock: FakeClock) -> AsyncIterator[Heartbeats]:
    heartbeats = Heartbeats(broker, clock)
    task = asyncio.create_task(heartbeats.run())
    try:
        yield heartbeats
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def beat(**fields: Any) -> WorkerHeartbeat:
    common: dict[str, Any] = {"namespace": ECHO.namespace, "function": ECHO.name, "workerName": "w", "state": "ready"}
    return WorkerHeartbeat(**{**common, "sentAt": 5000.0, **fields})


async def is_heard(heartbeats: Heartbeats, broker: Broker, said: WorkerHeartbeat) -> None:
    async def known() -> bool:
        await broker.nats.publish(subjects.heartbeat(ECHO, said.workerName), encode(said))
        found = heartbeats.of(ECHO).get(said.workerName)
        return found is not None and found.said == said

    await eventually(known, what=f"{said} is heard")


@mutant("serverless/heartbeats.py", "for name, beat in workers.items() if beat.heard <= limit", "for name, beat in ()")
async def test_a_worker_that_falls_silent_is_forgotten(server: NatsServer) -> None:
    clock = FakeClock()
    async with server.connection() as broker, heard(broker, clock) as heartbeats:
        await is_heard(heartbeats, broker, beat(running=["a.1"]))
        assert heartbeats.is_running(ECHO, "a.1")
        clock.advance(EXPIRY_SECONDS)
        assert heartbeats.of(ECHO) == {}
        assert not heartbeats.is_running(ECHO, "a.1")
        heartbeats.prune()
        assert heartbeats._workers == {}


async def test_only_news_are_told(server: NatsServer) -> None:
    clock = FakeClock()
    async with server.connection() as broker, heard(broker, clock) as heartbeats:
        told: list[Function] = []
        heartbeats.subscribe(told.append)
        heartbeats.note(ECHO, "w", beat())
        heartbeats.note(ECHO, "w", beat(sentAt=5002.0))
        assert told == [ECHO]
        heartbeats.note(ECHO, "w", beat(state="draining", sentAt=5004.0))
        assert told == [ECHO, ECHO]
        clock.advance(EXPIRY_SECONDS)
        heartbeats.prune()
        assert told == [ECHO, ECHO, ECHO]


async def test_idle_time_is_measured_by_the_workers_clock_and_ours_together(server: NatsServer) -> None:
    clock = FakeClock()
    async with server.connection() as broker, heard(broker, clock) as heartbeats:
        heartbeats.note(ECHO, "w", beat(idleSince=4990.0))  # its clock may be years away from ours
        clock.advance(3.0)
        idle = heartbeats.of(ECHO)["w"]
        assert idle.idle_seconds(clock.monotonic()) == 13.0
        heartbeats.note(ECHO, "w", beat(idleSince=6000.0))  # its clock was set back
        assert heartbeats.of(ECHO)["w"].idle_seconds(clock.monotonic()) == 0.0
        heartbeats.note(ECHO, "w", beat(running=["a.1"]))
        assert heartbeats.of(ECHO)["w"].idle_seconds(clock.monotonic()) == 0.0


async def test_heartbeats_that_cannot_be_read_are_ignored_and_others_are_heard(server: NatsServer) -> None:
    async with server.connection() as broker, heard(broker, FakeClock()) as heartbeats:
        for subject in ("wrk.a", "wrk.a.b.c.d", subjects.heartbeat(ECHO, "bad")):
            await broker.nats.publish(subject, b"no heartbeat")
        await is_heard(heartbeats, broker, beat())
        assert list(heartbeats._workers) == [ECHO]


async def test_workers_are_heard_again_after_the_broker_was_killed(server: NatsServer) -> None:
    clock = FakeClock()
    async with server.connection() as broker, heard(broker, clock) as heartbeats:
        await is_heard(heartbeats, broker, beat())
        before = heartbeats.since
        clock.advance(1.0)
        server.kill()
        await eventually(lambda: broker.problem, what="it is noticed")
        server.start()
        await eventually(lambda: heartbeats.since > before, what="the connection is back")
        await is_heard(heartbeats, broker, beat(sentAt=6000.0))
