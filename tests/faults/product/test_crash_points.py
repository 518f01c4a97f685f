"""Every fifth crash point of all operations, with a SIGKILL of a real process on the real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy
from equipment.fault_proxy.kill import When
from equipment.judge import conservation, orphans
from equipment.waiting import eventually
from kube.http.api import Answer, Api, Places
from kube.http.test_crash_points import FLOWS, REPLAYED, claimed, clean_run, prepare, recover
from kube.http.test_process import Running, runtime_api

SIDES: tuple[When, ...] = ("before", "after")


class OverHttp(Api):
    """A process of its own, asked like the one in the test's event loop."""

    def __init__(self, running: Running) -> None:
        self.url, self.session = running.url, running.session


async def test_a_real_kill_at_every_fifth_point_of_all_operations_loses_nothing(
    world: Places, fault_proxy: FaultProxy, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    async with world.witnessed() as witness:
        counted = {name: await clean_run(flow, world, fault_proxy) for name, flow in FLOWS.items()}
        points = [(name, n, when) for name, writes in counted.items() for n in range(1, writes + 1) for when in SIDES]
        for turn, (name, n, when) in enumerate(points[::5], 100):
            await killed(name, n, when, world, fault_proxy, folders, turn)
        with capsys.disabled():
            sys.stdout.write(f"\nreal, SIGKILL: {len(points[::5])} of {len(points)} crash points, writes {counted}\n")
        seen = await world.seen(witness)
        assert conservation(seen, stock_namespace=world.stock) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def killed(
    name: str, n: int, when: When, world: Places, proxy: FaultProxy, folders: Iterator[Path], turn: int
) -> None:
    """One kill of a real process, then another process and the replay."""
    flow, where = FLOWS[name], f"{name}, {when} write {n}"
    async with world.api() as helper:
        await prepare(helper, world, turn)
    async with runtime_api(proxy.server, world, next(folders), world.system) as running:
        await eventually(running.is_ready, what="the process is ready")
        kill = proxy.kill_at(n, running.process.pid, when)
        told: Answer | None = None
        with suppress(aiohttp.ClientError, AssertionError):  # cut off, or the job could not be asked about
            told = await flow.send(OverHttp(running), world, turn)
        await kill.happened()
    kill.remove()
    async with world.api() as fresh:
        await recover(fresh, world)
        done = await flow.made(world, turn)
        assert done or told is None, f"{where}: the client was told {told}"
    async with runtime_api(proxy.server, world, next(folders), world.system) as running:
        await eventually(running.is_ready, what="the next process is ready")
        replay = await flow.send(OverHttp(running), world, turn)
        assert replay.status in REPLAYED[name], f"{where}: {replay}"
        assert await flow.made(world, turn), where
    async with world.api() as fresh:
        await recover(fresh, world)
        assert not [unit for unit in await world.units(world.stock) if claimed(unit)], where
