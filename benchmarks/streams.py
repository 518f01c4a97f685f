"""300 open watches on one API replica: what they cost the requests beside them, and whether each sees every change.

GPU_RUNTIME_BENCH_STREAMS=500 opens another number of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop

from benchmarks._load import Bench, bench, onlooking, spread
from benchmarks._product import Product, running_product, start_processes

STREAMS = int(os.environ.get("GPU_RUNTIME_BENCH_STREAMS", "300"))
CLIENTS = 2  # of each sort
CREATES, READS, HAND_OVERS = 200, 1000, 120  # of each round
WARM_UP = 20
ROUNDS = 2
SETTLED_SECONDS = 3.0
NAMESPACE = "runtime-instance"
WATCHED = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{NAMESPACE}/gpuunits"


def main() -> None:
    with running_product() as product:
        uvloop.run(measure(product))


def say(what: str, measured: str, beside: str = "") -> None:
    print(f"{what:<46} {measured:<52} {beside}", flush=True)


async def measure(product: Product) -> None:
    async with bench(product) as hands, Truth().following(hands) as truth, onlooking(hands):
        start_processes(product)
        await seed(hands, WARM_UP + 2 * ROUNDS * HAND_OVERS)
        await warm_up(hands)
        alone = [await one_round(hands) for _ in range(ROUNDS)]
        async with watchers(product) as child:
            beside = [await one_round(hands) for _ in range(ROUNDS)]
            await asyncio.sleep(SETTLED_SECONDS)
            told = await child.report(truth.newest)
        for what in alone[0]:
            compare(what, [each for one in alone for each in one[what]], [each for one in beside for each in one[what]])
        judge(truth, told)
        usage = product.usage()["runtime-api"]
        say("runtime-api, in all", f"{usage.cpu_seconds:.1f} s CPU, {usage.memory_mib:.0f} MiB resident")


async def seed(hands: Bench, replicas: int) -> None:
    size = {"specName": "g1.1", "cpu": "100m", "memory": "64Mi", "gpu": 1}
    await hands.post("/operator/stock-units", {"operationID": "stock", **size, "replicas": replicas})
    await hands.until(lambda: len(hands.ready) >= replicas)


async def one_round(hands: Bench) -> dict[str, list[float]]:
    """Seconds of each request, by what was asked for; all at once, so that reads meet the changes of hand-overs."""
    handed_over, created = hands.next(HAND_OVERS), range(hands.made, hands.made + CREATES)
    hands.made += CREATES

    async def create(number: int) -> None:
        body = {"operationID": f"pool-{number}", "name": f"pool-{number}", "specName": "g1.1", "replicas": 0}
        await hands.post("/operator/stockpools", body)

    async def read(number: int) -> None:
        async with hands.api.get(f"{hands.product.url}/gpu-units/unit-{number % WARM_UP}") as response:
            await response.read()
            if response.status != 200:
                raise RuntimeError(f"unit-{number % WARM_UP}: {response.status}")

    work = {
        "hand-over, claim to reply": spread(handed_over, CLIENTS, hands.hand_over),
        "create of a pool": spread(created, CLIENTS, create),
        "read of a unit": spread(range(READS), CLIENTS, read),
    }
    async with asyncio.TaskGroup() as group:
        tasks = {what: group.create_task(each) for what, each in work.items()}
    await hands.until_ready(f"unit-{number}" for number in handed_over)
    return {what: task.result()[1] for what, task in tasks.items()}


async def warm_up(hands: Bench) -> None:
    """The units that reads ask for."""
    numbers = hands.next(WARM_UP)
    await spread(numbers, CLIENTS, hands.hand_over)
    await hands.until_ready(f"unit-{number}" for number in numbers)


def compare(what: str, alone: list[float], beside: list[float]) -> None:
    before, after = p99(alone), p99(beside)
    say(
        f"{what}, {STREAMS} watches",
        f"p99 {1000 * after:.0f} ms, {1000 * before:.0f} ms without watches",
        f"{after / before:.1f} times; must 3 times",
    )


def p99(each: list[float]) -> float:
    return sorted(each)[min(len(each) - 1, int(len(each) * 0.99))]


@dataclass
class Truth:
    """The versions of all changes, from a watch of the API server itself."""

    versions: list[int] = field(default_factory=list)

    @property
    def newest(self) -> int:
        return max(self.versions, default=0)

    @asynccontextmanager
    async def following(self, hands: Bench) -> AsyncIterator[Truth]:
        async def follow() -> None:
            async with hands.kube.get(WATCHED, params={"watch": "true", "timeoutSeconds": "3600"}) as response:
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    self.versions += [int(json.loads(line)["object"]["metadata"]["resourceVersion"]) for line in lines]

        async with asyncio.TaskGroup() as group:
            task = group.create_task(follow())
            yield self
            task.cancel()


def judge(truth: Truth, told: list[dict[str, Any]]) -> None:
    """Each watch must have been told exactly the changes after its list."""
    wrong = 0
    for watch in told:
        expected = [version for version in truth.versions if version > watch["begin"]]
        wrong += watch["versions"] != expected or watch["resets"] > 0
    events = sum(len(watch["versions"]) for watch in told)
    changes = len([version for version in truth.versions if version > min(watch["begin"] for watch in told)])
    say(f"{len(told)} watches, {changes} changes", f"{events} events", f"{wrong} missed or repeated one; must 0")


@dataclass
class Child:
    """The process that holds the watches."""

    report: Callable[[int], Awaitable[list[dict[str, Any]]]]


@asynccontextmanager
async def watchers(product: Product) -> AsyncIterator[Child]:
    command = (sys.executable, "-m", "benchmarks._watchers", f"{product.url}/gpu-units", str(STREAMS))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 28)
    assert process.stdin is not None
    assert process.stdout is not None
    sink, source = process.stdin, process.stdout

    async def report(version: int) -> list[dict[str, Any]]:
        sink.write(f"{version}\n".encode())
        told: list[dict[str, Any]] = json.loads(await source.readline())
        return told

    try:
        if await source.readline() != b"open\n":
            raise RuntimeError("the watches could not be opened")
        yield Child(report)
    finally:
        process.kill()
        await process.wait()
