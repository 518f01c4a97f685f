"""Clients of the product and an onlooker on the cluster, as benchmarks use them."""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks._product import Product

UNITS = "/apis/runtime.lokiwager.io/v1alpha1/gpuunits"
DEPLOYMENTS = "/apis/apps/v1/deployments"

Send = Callable[[int], Awaitable[object]]


@dataclass
class Bench:
    """Two sessions: to the product's API as a client, to Kubernetes as an onlooker."""

    product: Product
    api: aiohttp.ClientSession
    kube: aiohttp.ClientSession
    ready: dict[str, float] = field(default_factory=dict)
    available: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    made: int = 0

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self.api.post(self.product.url + path, json=body) as response:
            answer: dict[str, Any] = await response.json()
            if response.status >= 300:
                raise RuntimeError(f"{path}: {response.status} {answer}")
            return answer

    async def create(self, path: str, document: dict[str, Any]) -> None:
        async with self.kube.post(path, json=document) as response:
            if response.status != 201:
                raise RuntimeError(await response.text())
            await response.read()

    async def listed(self, path: str) -> list[dict[str, Any]]:
        async with self.kube.get(path) as response:
            items: list[dict[str, Any]] = (await response.json())["items"]
            return items

    async def hand_over(self, number: int) -> None:
        name = f"unit-{number}"
        port = {"name": "http", "port": 8080}
        body = {"operationID": name, "name": name, "specName": "g1.1", "image": "python:3.12"}
        await self.post("/gpu-units", {**body, "access": {"primaryPort": "http"}, "template": {"ports": [port]}})

    def next(self, count: int) -> range:
        """So many numbers that nobody has used."""
        self.made += count
        return range(self.made - count, self.made)

    async def until_ready(self, names: Iterable[str]) -> None:
        waiting = set(names)
        await self.until(lambda: waiting <= self.ready.keys())

    async def until(self, done: Callable[[], bool]) -> None:
        """Looks again after each change that was noticed."""
        while not done():
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def bench(product: Product) -> AsyncIterator[Bench]:
    context = ssl.create_default_context(cafile=str(product.admin.ca_file))
    headers = {"Authorization": f"Bearer {product.admin.token}"}
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    patience = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=patience) as api,
        aiohttp.ClientSession(product.admin.url, headers=headers, connector=connector, timeout=patience) as kube,
    ):
        yield Bench(product, api, kube)


async def spread(numbers: Iterable[int], clients: int, send: Send) -> tuple[float, list[float]]:
    """Seconds in all, and each request's, sorted."""
    left, each = iter(numbers), list[float]()

    async def client() -> None:
        for number in left:
            began = time.perf_counter()
            await send(number)
            each.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return time.perf_counter() - began, sorted(each)


def told(each: list[float]) -> str:
    p99 = each[min(len(each) - 1, int(len(each) * 0.99))]
    return f"p50 {1000 * statistics.median(each):.0f} ms, p99 {1000 * p99:.0f} ms"


@asynccontextmanager
async def onlooking(bench: Bench) -> AsyncIterator[None]:
    """Notes when each unit is first seen Ready, and its Deployment Available."""

    async def follow(path: str, seen: dict[str, float], holds: Callable[[dict[str, Any]], bool]) -> None:
        while True:  # a watch that the server ends begins again with all that is there
            async with bench.kube.get(path, params={"watch": "true"}) as response:
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        note(json.loads(line)["object"], seen, holds)

    def note(found: dict[str, Any], seen: dict[str, float], holds: Callable[[dict[str, Any]], bool]) -> None:
        name = found["metadata"].get("name", "")
        if name not in seen and holds(found):
            seen[name] = time.perf_counter()
            bench.changed.set()

    def unit_ready(unit: dict[str, Any]) -> bool:
        return bool(unit.get("status", {}).get("phase") == "Ready")

    def deployment_available(deployment: dict[str, Any]) -> bool:
        return bool(deployment.get("status", {}).get("availableReplicas"))

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(follow(UNITS, bench.ready, unit_ready)),
            group.create_task(follow(DEPLOYMENTS, bench.available, deployment_available)),
        ]
        yield
        for task in tasks:
            task.cancel()
