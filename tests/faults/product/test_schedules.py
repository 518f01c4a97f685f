"""Schedules of the exploration, replayed with real processes: one stands still at a write while the other goes on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from equipment.fault_proxy import FaultProxy, writes
from equipment.judge import conservation, count_stock, orphans
from equipment.waiting import eventually
from kube.http.api import Places, unit_request
from kube.http.test_process import Running, runtime_api

UNITS = "/gpu-units"
SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")


async def test_an_executor_that_stands_still_at_any_write_and_another_have_one_effect(
    world: Places, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    async def all_consumed() -> bool:
        return not await world.units(world.stock)

    async with (
        world.witnessed() as witness,
        FaultProxy(world.server, name="one") as proxy,
        runtime_api(proxy.server, world, next(folders), world.system) as one,
        runtime_api(world.server, world, next(folders), world.system) as two,
    ):
        for process in (one, two):
            await eventually(process.is_ready, what="the process is ready")
        await picker(world, [one, two], "clean", 1)
        mark = proxy.mark()
        assert (await one.call("POST", UNITS, unit_request("clean", "clean", specName="clean")))[0] == 201
        await eventually(all_consumed, what="the consumed stock is gone")
        steps = len(proxy.writes(since=mark))
        points = [(n, side) for n in range(1, steps + 1) for side in SIDES]
        for n, side in points:
            await eventually(all_consumed, what="the consumed stock is gone")
            same = f"same-{side}-{n}"
            await picker(world, [one, two], same, 1)
            request = unit_request(same, same, specName=same)
            answers = await one_stands_still(proxy, n, side, (one, request), (two, request))
            # Which of them made it is a matter of who came to the record first.
            assert sorted(answers) == [200, 201], (n, side)
        for n, side in points:
            await eventually(all_consumed, what="the consumed stock is gone")
            spec = f"rival-{side}-{n}"
            await picker(world, [one, two], spec, 1)
            requests = [unit_request(f"{spec}-{who}", f"{spec}-{who}", specName=spec) for who in "ab"]
            answers = await one_stands_still(proxy, n, side, (one, requests[0]), (two, requests[1]))
            assert sorted(answers) == [201, 409], (n, side)
        handed_over = 1 + 2 * len(points)
        await eventually(all_consumed, what="the consumed stock is gone")
        seen = await world.seen(witness)
        with capsys.disabled():
            sys.stdout.write(f"\n{2 * len(points)} schedules of two processes, held at {len(points)} points\n")
        assert conservation(seen, seeded=handed_over, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == handed_over
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def one_stands_still(
    proxy: FaultProxy,
    n: int,
    side: Literal["before", "after"],
    still: tuple[Running, dict[str, Any]],
    other: tuple[Running, dict[str, Any]],
) -> list[int]:
    """The first is stopped at its n-th write, the second runs to its end, then the first goes on: both codes."""
    held = proxy.on(writes(), nth=n).hold(side)
    first = asyncio.create_task(still[0].call("POST", UNITS, still[1]))
    await held.arrived()
    second, _ = await other[0].call("POST", UNITS, other[1])
    held.release()
    answers = [(await first)[0], second]
    held.remove()
    return answers


async def picker(world: Places, processes: list[Running], spec: str, size: int) -> None:
    """Ready stock of a spec of its own, known to all processes."""
    body = {"operationID": f"seed-{spec}", "specName": spec, "gpu": 1, "replicas": size}
    assert (await processes[-1].call("POST", "/operator/stock-units", body))[0] == 202

    async def made() -> bool:
        return [unit.spec.specName for unit in await world.units(world.stock)].count(spec) == size

    await eventually(made, what="the stock is made")
    for process in processes:

        async def known(process: Running = process) -> bool:
            await world.make_ready()  # as far as its record lists it by now
            _, inventory = await process.call("GET", "/operator/inventory")
            return any(each["specName"] == spec and each["handOverNow"] == size for each in inventory["data"]["specs"])

        await eventually(known, what="the process knows the stock")
