"""Two replicas, both held at their first write, so that every pair of requests overlaps."""

from __future__ import annotations

import asyncio
import sys
from random import Random
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy, writes
from equipment.judge import Reply, conservation, count_stock, one_effect, orphans
from equipment.waiting import eventually
from kube.http.api import Answer, Api, Places, pool_request, unit_request

SEEDS = 200
POOLS, UNITS = "/operator/stockpools", "/gpu-units"
Request = tuple[str, dict[str, Any]]


def requests(seed: int, world: Places) -> tuple[str, Request, Request, set[tuple[int, int]]]:
    """What the two replicas are asked, and the pairs of answers (sorted) that are right."""
    once = {(200, 201)}
    match seed % 4:
        case 0:
            body = unit_request(f"same-{seed}", f"same-{seed}")
            return "same unit", (UNITS, body), (UNITS, body), once
        case 1:
            one, two = (unit_request(f"other-{seed}", f"other-{seed}", image=image) for image in ("a", "b"))
            return "same id, other payload", (UNITS, one), (UNITS, two), {(201, 409)}
        case 2:
            names = (f"rival-{seed}-1", f"rival-{seed}-2")
            one, two = (unit_request(name, name, specName=f"scarce.{seed}") for name in names)
            return "rivals", (UNITS, one), (UNITS, two), {(201, 409)}
    pool = pool_request(f"pool-{seed}", f"pool-{seed}", namespace=world.instance)
    return "same pool", (POOLS, pool), (POOLS, pool), {(200, 202)}


async def test_two_hundred_overlapping_pairs_have_one_effect_each(
    world: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    scarce = [seed for seed in range(SEEDS) if seed % 4 == 2]  # one stock unit for two rivals each
    replies: list[Reply] = []
    async with (
        world.witnessed() as witness,
        FaultProxy(world.server, name="one") as first,
        FaultProxy(world.server, name="two") as second,
        world.api(first.server) as one,
        world.api(second.server) as two,
    ):
        await world.seed(one, SEEDS // 2, operation_id="plenty")
        for seed in scarce:
            await seed_one(one, seed)
        await world.make_ready()
        await world.known(one)
        await world.known(two)
        overlaps = 0
        for seed in range(SEEDS):
            kind, asked_one, asked_two, right = requests(seed, world)
            answers = await overlapping((one, first, asked_one), (two, second, asked_two), Random(seed))
            overlaps += 1
            low, high = sorted(answer.status for answer in answers)
            assert (low, high) in right, (seed, kind, answers)
            replies += [reply(asked, answer) for asked, answer in zip((asked_one, asked_two), answers, strict=True)]
        with capsys.disabled():
            sys.stdout.write(f"\n{overlaps} of {SEEDS} pairs overlapped\n")
        for api in (one, two):
            await world.known(api)
            await api.services.sweeper.sweep()
        seen = await world.seen(witness)
        batches = {"plenty": SEEDS // 2, **{f"scarce-{seed}": 1 for seed in scarce}}
        assert conservation(seen, seeded=sum(batches.values()), stock_namespace=world.stock) == []
        assert count_stock(seen, stock_namespace=world.stock).handed_over == SEEDS // 2 + len(scarce)
        assert one_effect(seen, replies, stock_namespace=world.stock, expected=batches) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def seed_one(api: Api, seed: int) -> None:
    body = {"operationID": f"scarce-{seed}", "specName": f"scarce.{seed}", "gpu": 1, "replicas": 1}
    assert (await api.post("/operator/stock-units", body)).status == 202

    async def made() -> bool:
        job = await api.get(f"/operator/jobs/scarce-{seed}")
        return bool(job.data["status"] == "succeeded")

    await eventually(made, what="the stock is made")


async def overlapping(
    one: tuple[Api, FaultProxy, Request], two: tuple[Api, FaultProxy, Request], rng: Random
) -> list[Answer]:
    """Both requests stand before their first write, or are answered without one; then both go on, in any order."""
    held = [proxy.on(writes(), times=1).hold() for _, proxy, _ in (one, two)]
    asked = [asyncio.create_task(api.post(*request)) for api, _, request in (one, two)]
    for hold in held:
        await hold.arrived()
    for hold in rng.sample(held, 2):
        hold.release()
    answers = list(await asyncio.gather(*asked))
    for hold in held:
        hold.remove()
    return answers


def reply(asked: Request, answer: Answer) -> Reply:
    path, body = asked
    made = (answer.data.get("name") or answer.data.get("objectName")) if answer.status < 300 else None
    kind = "pool" if path == POOLS else "unit"
    return Reply(kind, body["operationID"], str(body), answer.status, answer.code, made)
