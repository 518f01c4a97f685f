"""Two real API processes race for less stock than they ask for, and each knows at once what the other has made."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy, creates
from equipment.judge import conservation, count_stock, orphans
from equipment.waiting import eventually
from kube.http.api import Places, pool_request, unit_request
from kube.http.test_process import Running, runtime_api

SEEDS = 25
STOCK = 2
ASKING = 4  # hand-overs, half of them on each process, for each seed's two stock units


async def test_hand_overs_on_two_processes_race_for_less_stock_and_each_sees_what_the_other_made(
    world: Places, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        world.witnessed() as witness,
        FaultProxy(world.server, name="one") as first,
        FaultProxy(world.server, name="two") as second,
        runtime_api(first.server, world, next(folders), world.system) as one,
        runtime_api(second.server, world, next(folders), world.system) as two,
    ):
        for process in (one, two):
            await eventually(process.is_ready, what="the process is ready")
        await shelves(world, one, two)
        overlaps = 0
        for seed in range(SEEDS):
            overlaps += await race(seed, (one, first), (two, second))
            await read_by_the_other(seed, world, *Random(seed).sample((one, two), 2))
        with capsys.disabled():
            sys.stdout.write(f"\n{overlaps} of {SEEDS} races overlapped on both processes\n")
        assert overlaps == SEEDS

        async def all_consumed() -> bool:
            return not await world.units(world.stock)

        await eventually(all_consumed, what="the consumed stock is gone")
        seen = await world.seen(witness)
        assert conservation(seen, seeded=SEEDS * STOCK, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == SEEDS * STOCK
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def shelves(world: Places, *processes: Running) -> None:
    """Two Ready stock units for each seed, known to both processes."""
    for seed in range(SEEDS):
        body = {"operationID": f"seed-{seed}", "specName": f"scarce.{seed}", "gpu": 1, "replicas": STOCK}
        assert (await processes[0].call("POST", "/operator/stock-units", body))[0] == 202

    async def all_made() -> bool:
        return len(await world.units(world.stock)) == SEEDS * STOCK

    await eventually(all_made, what="the stock is made")
    await world.make_ready()
    for process in processes:

        async def known(process: Running = process) -> bool:
            _, inventory = await process.call("GET", "/operator/inventory")
            return sum(int(spec["handOverNow"]) for spec in inventory["data"]["specs"]) == SEEDS * STOCK

        await eventually(known, what="the process knows the stock")


async def race(seed: int, *replicas: tuple[Running, FaultProxy]) -> bool:
    """As many succeed as there is stock, and the rest is told that there is no more; whether all overlapped."""
    held = [proxy.on(creates("operations"), times=ASKING // len(replicas)).hold() for _, proxy in replicas]
    asked: list[asyncio.Task[tuple[int, Any]]] = []
    for number in range(ASKING):
        process, _ = replicas[number % len(replicas)]
        name = f"racer-{seed}-{number}"
        body = unit_request(name, name, specName=f"scarce.{seed}")
        asked.append(asyncio.create_task(process.call("POST", "/gpu-units", body)))
    for hold in held:
        await hold.arrived(ASKING // len(replicas))
    overlapped = not any(task.done() for task in asked)
    for hold in Random(seed).sample(held, len(held)):
        hold.release()
    answers = await asyncio.gather(*asked)
    for hold in held:
        hold.remove()
    outcome = sorted(status for status, _ in answers)
    assert outcome == [201] * STOCK + [409] * (ASKING - STOCK), "\n".join(str(answer) for answer in answers)
    assert {body["error"]["code"] for status, body in answers if status == 409} == {"insufficient_capacity"}
    return overlapped


async def read_by_the_other(seed: int, world: Places, writer: Running, reader: Running) -> None:
    """What one has answered for, the other knows at once."""
    name = f"pool-{seed}"
    status, job = await writer.call("POST", "/operator/stockpools", pool_request(name, name, namespace=world.instance))
    assert status == 202, job
    assert (await reader.call("GET", f"/operator/jobs/{name}"))[0] == 200
    assert (await reader.call("GET", f"/operator/stockpools/{name}?namespace={world.instance}"))[0] == 200
    _, listed = await writer.call("GET", "/gpu-units?limit=500")
    made = [unit["name"] for unit in listed["data"] if unit["name"].startswith(f"racer-{seed}-")]
    for each in made:
        assert (await reader.call("GET", f"/gpu-units/{each}"))[0] == 200
