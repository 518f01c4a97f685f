"""Every fifth crash point of all operations, with a SIGKILL of a real process on the real server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.judge import conservation, orphans
from equipment.waiting import eventually
from kube.http.api import Api, Places
from kube.http.test_process import Running, runtime_api
from local.crash_points.flows import FLOWS, Victim, clean_run, crash, reconciling


class OverHttp(Api):
    """A process of its own, asked like the one in the test's event loop."""

    def __init__(self, running: Running) -> None:
        self.url, self.session = running.url, running.session


@asynccontextmanager
async def in_its_own(world: Places, proxy: FaultProxy, folders: Iterator[Path]) -> AsyncIterator[tuple[Api, Victim]]:
    """A runtime-api as a process, and its pid."""
    async with runtime_api(proxy.server, world, next(folders), world.system) as running:
        await eventually(running.is_ready, what="the process is ready")
        yield OverHttp(running), running.process.pid


async def test_a_real_kill_at_every_fifth_point_of_all_operations_loses_nothing(
    world: Places, fault_proxy: FaultProxy, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    async with reconciling(world), world.witnessed() as witness:
        runs = {name: await clean_run(flow, world, fault_proxy) for name, flow in FLOWS.items()}
        points = [(clean, point) for clean in runs.values() for point in clean.points]
        assert len(points) == 2 * sum(clean.writes for clean in runs.values())
        start = partial(in_its_own, world, fault_proxy, folders)
        for turn, (clean, point) in enumerate(points[::5], 1):
            await crash(clean, start, world, fault_proxy, turn, point)
        with capsys.disabled():
            counted = {name: clean.writes for name, clean in runs.items()}
            sys.stdout.write(f"\nSIGKILL at {len(points[::5])} of {len(points)} crash points, writes {counted}\n")
        seen = await world.seen(witness)
        assert conservation(seen, stock_namespace=world.stock) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []
