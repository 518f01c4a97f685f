"""The product on a real control plane with fake nodes: creates, hand-overs, replays and rest, beside the ceiling.

GPU_RUNTIME_BENCH_SECONDS=300 sustains hand-overs for five minutes in place of one.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import uvloop

from benchmarks._load import UNITS, Bench, bench, onlooking, spread, told
from benchmarks._product import OURS, Product, running_product, start_processes

CLIENTS = 20
BARE_CREATES = 600
BARE_DEPLOYMENTS = 150
POOLS = 300
SINGLE = 30
COUNTED = 20
BURST = 150
REPLAY_SECONDS = 8.0
QUIET_SECONDS = 20.0
SETTLED_SECONDS = 5.0
SUSTAINED_SECONDS = float(os.environ.get("GPU_RUNTIME_BENCH_SECONDS", "60"))
MOST_A_SECOND = 15  # hand-overs that the sustained minutes have stock for
OUTSTANDING = 40  # hand-overs under way at a time while it is sustained
AT_ONCE = 300  # stock units whose readiness is told while all of them start
BATCH = 1000  # stock units, as many as one request may seed
SOURCE = "runtime.lokiwager.io/source-stock-uid"


def main() -> None:
    with running_product() as product:
        uvloop.run(measure(product))


def say(what: str, measured: str, beside: str = "") -> None:
    print(f"{what:<46} {measured:<52} {beside}", flush=True)


async def measure(product: Product) -> None:
    async with bench(product) as hands:
        bare = await ceilings(hands)
        start_processes(product)
        await pools(hands, bare)
        async with onlooking(hands):
            await lag(hands)
            await stock(hands, bare)
            await one_client(hands, bare)
            await counted(hands)
            await burst(hands, bare)
            await replays(hands)
            await sustained(hands, bare)
            await quiet(hands)
        await owners(hands)
    for name, usage in product.usage().items():
        say(f"{name}, in all", f"{usage.cpu_seconds:.1f} s CPU, {usage.memory_mib:.0f} MiB resident")


@dataclass(frozen=True)
class Bare:
    """What the control plane gives to somebody who does nothing else."""

    creates: float
    one_create: float
    deployments: float


async def ceilings(bench: Bench) -> Bare:
    async def config_map(number: int) -> None:
        await bench.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"bare-{number}"}})

    alone, each = await spread(range(100), 1, config_map)
    seconds, _ = await spread(range(100, 100 + BARE_CREATES), CLIENTS, config_map)
    path = "/apis/apps/v1/namespaces/default/deployments"

    async def deployment(number: int) -> None:
        labels = {"bare": str(number)}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
        await bench.create(path, {"metadata": {"name": f"bare-{number}"}, "spec": spec})

    began = time.perf_counter()
    async with onlooking(bench):
        await spread(range(BARE_DEPLOYMENTS), CLIENTS, deployment)
        await bench.until(lambda: len(bench.available) == BARE_DEPLOYMENTS)
    bare = Bare(BARE_CREATES / seconds, statistics.median(each), BARE_DEPLOYMENTS / (time.perf_counter() - began))
    say("ceiling: bare creates", f"{bare.creates:.0f}/s at {CLIENTS} clients, {100 / alone:.0f}/s at 1")
    say("ceiling: bare Deployments to Available", f"{bare.deployments:.1f}/s")
    async with bench.kube.delete(path) as response:
        await response.read()
    return bare


async def pools(bench: Bench, bare: Bare) -> None:
    async def create(number: int) -> None:
        body = {"operationID": f"pool-{number}", "name": f"pool-{number}", "specName": "g1.1", "replicas": 0}
        await bench.post("/operator/stockpools", body)

    seconds, each = await spread(range(POOLS), CLIENTS, create)
    rate = POOLS / seconds
    say(
        f"burst of {POOLS} pool creates, {CLIENTS} clients",
        f"{rate:.0f}/s, {told(each)}",
        f"{100 * rate / bare.creates:.0f} % of bare creates; must 60/s, p99 500 ms",
    )


async def lag(bench: Bench) -> None:
    """How far our status is behind the cluster's while all of it is busy."""
    await seed(bench, "lag", AT_ONCE)
    await bench.until(lambda: len(bench.ready) >= AT_ONCE)
    late = sorted(
        max(0.0, bench.ready[name] - bench.available[name]) for name in bench.ready.keys() & bench.available.keys()
    )
    say(f"Deployment available to unit Ready, {AT_ONCE} at once", told(late), "must p99 300 ms")


async def stock(bench: Bench, bare: Bare) -> None:
    """The first thousand is measured; the rest is what the sustained minutes will consume."""
    began = time.perf_counter()
    await seed(bench, "first", BATCH)
    await bench.until(lambda: len(bench.ready) >= AT_ONCE + BATCH)
    seconds = time.perf_counter() - began
    say(
        f"{BATCH} stock units to Ready",
        f"{seconds:.0f} s, {BATCH / seconds:.1f}/s",
        f"{100 * BATCH / seconds / bare.deployments:.0f} % of bare Deployments; must 90 s",
    )
    wanted = 2 * SINGLE + COUNTED + BURST + int(SUSTAINED_SECONDS * MOST_A_SECOND)
    more = max(0, wanted - AT_ONCE - BATCH)
    if more:
        await seed(bench, "more", more)
        await bench.until(lambda: len(bench.ready) >= AT_ONCE + BATCH + more)


async def seed(bench: Bench, operation_id: str, replicas: int) -> None:
    size = {"specName": "g1.1", "cpu": "100m", "memory": "64Mi", "gpu": 1}
    for number, first in enumerate(range(0, replicas, BATCH)):
        body = {"operationID": f"{operation_id}-{number}", **size, "replicas": min(BATCH, replicas - first)}
        await bench.post("/operator/stock-units", body)


async def one_client(bench: Bench, bare: Bare) -> None:
    """Alone, and back to back: then the cluster builds the unit before while the next is asked for."""
    alone: list[float] = []
    for number in bench.next(SINGLE):
        alone += (await spread([number], 1, bench.hand_over))[1]
        await bench.until_ready([f"unit-{number}"])
    creates = statistics.median(alone) / bare.one_create
    beside = f"{creates:.1f} bare creates of {1000 * bare.one_create:.0f} ms; must p50 60 ms"
    say("warm hand-over, 1 client, claim to reply", told(sorted(alone)), beside)
    numbers = bench.next(SINGLE)
    _, each = await spread(numbers, 1, bench.hand_over)
    say("  the same back to back", told(each))
    await bench.until_ready(f"unit-{number}" for number in numbers)


async def counted(bench: Bench) -> None:
    """Writes by what was written, of hand-overs that have nothing beside them."""
    await asyncio.sleep(SETTLED_SECONDS)
    before = bench.product.writes()
    numbers = bench.next(COUNTED)
    await spread(numbers, 1, bench.hand_over)
    await bench.until_ready(f"unit-{number}" for number in numbers)
    await asyncio.sleep(SETTLED_SECONDS)
    written = without_leases(bench.product.writes() - before)
    say("writes per hand-over, ours alone, to Ready", f"{written.total() / COUNTED:.1f}", "must 12")
    for (process, what), count in sorted(written.items()):
        say(f"  {process}: {what}", f"{count / COUNTED:.2f}")


def without_leases(written: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({key: count for key, count in written.items() if "leases" not in key[1]})


async def burst(bench: Bench, bare: Bare) -> None:
    numbers = bench.next(BURST)
    seconds, each = await spread(numbers, CLIENTS, bench.hand_over)
    rate = BURST / seconds
    beside = f"{100 * rate * 6 / bare.creates:.0f} % of bare creates at 6 writes each; must 25/s"
    say(f"warm hand-over, burst of {BURST}, {CLIENTS} clients", f"{rate:.0f}/s, {told(each)}", beside)
    await bench.until_ready(f"unit-{number}" for number in numbers)


async def replays(bench: Bench) -> None:
    end = time.perf_counter() + REPLAY_SECONDS

    async def replay(number: int) -> None:
        await bench.hand_over(number % bench.made)

    def until_the_end() -> Iterator[int]:
        number = 0
        while time.perf_counter() < end:
            yield (number := number + 1)

    seconds, each = await spread(until_the_end(), CLIENTS, replay)
    say(
        f"idempotent replay, {CLIENTS} clients, {len(bench.ready)} units",
        f"{len(each) / seconds:.0f}/s, {told(each)}",
        "must 300/s",
    )


async def sustained(bench: Bench, bare: Bare) -> None:
    """Clients that each wait until their unit is Ready before they ask for the next."""
    began = time.perf_counter()
    stock = int(SUSTAINED_SECONDS * MOST_A_SECOND)

    async def hand_over(number: int) -> None:
        await bench.hand_over(number)
        await bench.until_ready([f"unit-{number}"])

    def until_the_end() -> Iterator[int]:
        for number in bench.next(stock):
            if time.perf_counter() - began > SUSTAINED_SECONDS:
                return
            yield number

    seconds, each = await spread(until_the_end(), OUTSTANDING, hand_over)
    rate = len(each) / seconds
    say(
        f"warm hand-over sustained {seconds:.0f} s, to Ready",
        f"{rate:.1f}/s, {told(each)}",
        f"{100 * rate / bare.deployments:.0f} % of bare Deployments; must 8/s",
    )


async def quiet(bench: Bench) -> None:
    await asyncio.sleep(2 * SETTLED_SECONDS)
    before, used = bench.product.writes(), bench.product.usage()
    await asyncio.sleep(QUIET_SECONDS)
    written = without_leases(bench.product.writes() - before)
    units = len(await bench.listed(UNITS))
    now = bench.product.usage()
    cpu = ", ".join(
        f"{name} {100 * (now[name].cpu_seconds - used[name].cpu_seconds) / QUIET_SECONDS:.1f} % CPU" for name in OURS
    )
    say(f"{QUIET_SECONDS:.0f} s of rest with {units} units", f"{written.total()} writes, {cpu}", "must 0 writes, 1 %")


async def owners(bench: Bench) -> None:
    """No stock unit has two owners, and none is lost."""
    units = await bench.listed(UNITS)
    sources = Counter(
        source for unit in units if (source := unit["metadata"].get("annotations", {}).get(SOURCE)) is not None
    )
    free = sum(unit["metadata"]["namespace"] == "runtime-stock" for unit in units)
    twice = sum(count > 1 for count in sources.values())
    seeded = len(bench.ready.keys() - {f"unit-{number}" for number in range(bench.made)})
    say("double owners", str(twice), f"{sources.total()} handed over + {free} free of {seeded} seeded")
