"""The broker of `up` on a disk that becomes full."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from equipment.mutation import mutant
from equipment.nats import SMALL_STREAMS
from equipment.nats_credentials import connected
from equipment.privileges import needs_root
from equipment.small_disk import SmallDisk, small_disk
from equipment.waiting import eventually
from gpu_runtime.cmd.up.broker import LocalBroker
from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError, NoAnswer
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.supervisor.events import Event, Unready
from gpu_runtime.supervisor.supervisor import Supervisor
from realkube.process import free_ports

ECHO = Function("runtime-instance", "echo")
DISK_BYTES = 8 * 1024**2
PAYLOAD_BYTES = 256 * 1024


@asynccontextmanager
async def supervised_broker(folder: Path, told: list[Event]) -> AsyncIterator[tuple[NatsSettings, SmallDisk]]:
    """As `up` runs it, but for the store on a small disk and for less patience."""
    layout = Layout.at(folder)
    layout.supervised.make()
    client, health = free_ports(2)
    broker = LocalBroker(layout, Ports(kubernetes=0, http={}, health={}, broker=client, brokerHealth=health))
    broker.write()
    settings = NatsSettings(url=broker.url, credentialsFile=str(broker.files.credentials("runtime-api")))
    with small_disk(folder / "broker" / "store", DISK_BYTES) as disk:
        program = broker.program()
        assert program.unready_seconds is not None
        program = replace(program, command=(*disk.enter, *program.command), unready_seconds=1.0)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(Supervisor(layout.supervised, [program], told.append).run(stop))
            try:
                yield settings, disk
            finally:
                stop.set()


async def fill(api: Broker) -> list[Run]:
    """Accepts invocations until the disk is full; those that the broker has confirmed."""
    accepted: list[Run] = []
    for number in range(2 * DISK_BYTES // PAYLOAD_BYTES):
        run = Run(ECHO, f"inv-{number}", 1)
        try:
            await publish_once(api, subjects.accepted(run, "normal"), os.urandom(PAYLOAD_BYTES), seconds=3)
        except NoAnswer:
            return accepted
        accepted.append(run)
    pytest.fail("the disk did not become full")


async def is_stored(api: Broker, run: Run) -> bool:
    try:
        return await last(api, INVOCATIONS, subjects.accepted_any(run)) is not None
    except BrokerError as error:  # while the broker restarts
        raise AssertionError(str(error)) from error


async def accepts(api: Broker, run: Run) -> bool:
    try:
        await publish_once(api, subjects.accepted(run, "normal"), os.urandom(PAYLOAD_BYTES), seconds=3)
    except BrokerError as error:
        raise AssertionError(str(error)) from error
    return True


@needs_root("mounting a small disk")
@mutant("cmd/up/broker.py", "            unready_seconds=UNREADY_SECONDS,\n", "")
async def test_a_full_disk_refuses_loses_nothing_and_works_again_when_there_is_space(tmp_path: Path) -> None:
    told: list[Event] = []
    async with supervised_broker(tmp_path, told) as (settings, disk), connected(settings, "runtime-api") as api:
        assert await streams.ensure(api, SMALL_STREAMS) == []
        accepted = await fill(api)
        assert accepted
        for run in accepted:
            assert await eventually(lambda: is_stored(api, run), what=f"{run} is kept")  # noqa: B023  awaited here
        disk.resize(8 * DISK_BYTES)
        later = Run(ECHO, "later", 1)
        await eventually(lambda: accepts(api, later), what="the broker accepts invocations again")
        for run in (*accepted, later):
            assert await eventually(lambda: is_stored(api, run), what=f"{run} is kept")  # noqa: B023  awaited here
    unready = [event for event in told if isinstance(event, Unready)]
    assert unready
    assert "no space left on device" in unready[0].problem
