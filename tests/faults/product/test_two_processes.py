"""Two real API processes, held at their first write so that all they are asked overlaps, have one effect each time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy, creates
from equipment.judge import Reply, Timeline, conservation, count_stock, one_effect, orphans
from equipment.waiting import eventually
from kube.http.api import Places, pool_request, unit_request
from kube.http.test_process import Running, runtime_api

SEEDS = 200
SCARCE = 3  # stock units of each race, for
RIVALS = 4  # hand-overs, half of them on each process
POOLS, UNITS = "/operator/stockpools", "/gpu-units"


@dataclass(frozen=True)
class Scene:
    """Requests that go to the two processes in turn, the answers that are right, and the stock that they take."""

    name: str
    path: str
    bodies: list[dict[str, Any]]
    right: list[int]
    consumed: int = 0
    refusal: str = ""


def scene(seed: int, world: Places) -> Scene:
    one = f"op-{seed}"
    units = [unit_request(one, one, image=image) for image in ("a", "b")]
    pools = [pool_request(one, one, namespace=world.instance, memory=memory) for memory in ("1Gi", "2Gi")]
    match seed % 5:
        case 0:
            return Scene("the same unit", UNITS, [units[0], units[0]], [200, 201], 1)
        case 1:
            return Scene("one id, two units", UNITS, units, [201, 409], 1, "operation_conflict")
        case 2:
            return Scene("the same pool", POOLS, [pools[0], pools[0]], [200, 202])
        case 3:
            return Scene("one id, two pools", POOLS, pools, [202, 409], 0, "operation_conflict")
    names = [f"{one}-{number}" for number in range(RIVALS)]
    rivals = [unit_request(name, name, specName=f"scarce.{seed}") for name in names]
    right = [201] * SCARCE + [409] * (RIVALS - SCARCE)
    return Scene("rivals for less stock", UNITS, rivals, right, SCARCE, "insufficient_capacity")


@dataclass(frozen=True)
class Replica:
    process: Running
    proxy: FaultProxy


async def test_two_hundred_overlapping_scenes_on_two_processes_have_one_effect_each(
    world: Places, folders: Iterator[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = [scene(seed, world) for seed in range(SEEDS)]
    async with (
        world.witnessed() as witness,
        FaultProxy(world.server, name="one") as first,
        FaultProxy(world.server, name="two") as second,
        runtime_api(first.server, world, next(folders), world.system) as one,
        runtime_api(second.server, world, next(folders), world.system) as two,
    ):
        replicas = [Replica(one, first), Replica(two, second)]
        for replica in replicas:
            await eventually(replica.process.is_ready, what="the process is ready")
        batches = await shelves(world, scenes, replicas)
        replies: list[Reply] = []
        overlaps, read = 0, 0
        for seed, each in enumerate(scenes):
            answers, overlapped = await play(each, replicas, Random(seed))
            overlaps += overlapped
            replies += [reply(each.path, body, *answer) for body, answer in zip(each.bodies, answers, strict=True)]
            read += await read_by_the_other(each, answers, world, replicas)

        async def all_consumed() -> bool:
            return not await world.units(world.stock)

        await eventually(all_consumed, what="the consumed stock is gone")
        seen = await world.seen(witness)
        with capsys.disabled():
            sys.stdout.write(
                f"\n{overlaps} of {SEEDS} scenes overlapped on both processes; {read} objects read from the other at "
                f"once; {chosen_again(seen)} of {RIVALS * sum(each.consumed == SCARCE for each in scenes)} rivals "
                "were given their next choice\n"
            )
        assert overlaps == SEEDS
        taken = sum(each.consumed for each in scenes)
        assert sum(batches.values()) == taken
        assert conservation(seen, seeded=taken, stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == taken
        assert one_effect(seen, replies, stock_namespace=world.stock, expected=batches) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def shelves(world: Places, scenes: list[Scene], replicas: list[Replica]) -> dict[str, int]:
    """Exactly as much Ready stock as will be taken, known to both processes: the sizes of its batches."""
    sizes: dict[str, int] = {}
    for each in scenes:
        if each.consumed:
            spec = each.bodies[0]["specName"]
            sizes[spec] = sizes.get(spec, 0) + each.consumed
    for spec, size in sizes.items():
        body = {"operationID": f"seed-{spec}", "specName": spec, "gpu": 1, "replicas": size}
        assert (await replicas[0].process.call("POST", "/operator/stock-units", body))[0] == 202
    wanted = sum(sizes.values())

    async def all_made() -> bool:
        return len(await world.units(world.stock)) == wanted

    await eventually(all_made, what="the stock is made")
    for replica in replicas:

        async def known(process: Running = replica.process) -> bool:
            await world.make_ready()  # as far as its record lists it by now
            _, inventory = await process.call("GET", "/operator/inventory")
            return sum(int(spec["handOverNow"]) for spec in inventory["data"]["specs"]) == wanted

        await eventually(known, what="the process knows the stock")
    return {f"seed-{spec}": size for spec, size in sizes.items()}


async def play(each: Scene, replicas: list[Replica], rng: Random) -> tuple[list[tuple[int, Any]], bool]:
    """All requests stand before their first write, then go on in any order: the answers, and whether all overlapped."""
    share = len(each.bodies) // len(replicas)
    held = [replica.proxy.on(creates("operations"), times=share).hold() for replica in replicas]
    asked = [
        asyncio.create_task(replicas[number % len(replicas)].process.call("POST", each.path, body))
        for number, body in enumerate(each.bodies)
    ]
    for hold in held:
        await hold.arrived(share)
    overlapped = not any(task.done() for task in asked)
    for hold in rng.sample(held, len(held)):
        hold.release()
    answers = list(await asyncio.gather(*asked))
    assert sorted(status for status, _ in answers) == each.right, (each.name, answers)
    assert {body["error"]["code"] for status, body in answers if status == 409} <= {each.refusal}, (each.name, answers)
    return answers, overlapped


async def read_by_the_other(each: Scene, answers: list[tuple[int, Any]], world: Places, replicas: list[Replica]) -> int:
    """What one has answered for, the other knows at once; how many objects were asked for."""
    read = 0
    for number, ((status, answer), body) in enumerate(zip(answers, each.bodies, strict=True)):
        if status >= 300:
            continue
        other = replicas[(number + 1) % len(replicas)].process
        paths = [f"{each.path}/{body['name']}?namespace={world.instance}"]
        if each.path == POOLS:
            paths.append(f"/operator/jobs/{body['operationID']}")
        for path in paths:
            got, found = await other.call("GET", path)
            assert got == 200, (each.name, path, answer, found)
            read += 1
    return read


def reply(path: str, body: dict[str, Any], status: int, answer: Any) -> Reply:
    data, error = answer.get("data") or {}, answer.get("error") or {}
    made = data.get("name") or data.get("objectName")
    return Reply(
        "pool" if path == POOLS else "unit", body["operationID"], str(body), status, error.get("code", ""), made
    )


def chosen_again(seen: Timeline) -> int:
    """Hand-overs that found their choice taken and were given another, by their records."""
    return sum(
        len({stock["uid"] for state in record.states if (stock := _choice(state.document))}) > 1
        for record in seen.of_kind("Operation")
    )


def _choice(record: dict[str, Any]) -> dict[str, Any] | None:
    choice: dict[str, Any] | None = ((record.get("status") or {}).get("decisions") or {}).get("stock")
    return choice
