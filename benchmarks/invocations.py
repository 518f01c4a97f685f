"""Serverless on the embedded cluster, over REST: acceptance beside the broker's ceiling, latency, throughput, memory.

`gpu-runtime up` runs everything, with fsync on every write of the broker.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks._load import spread
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.config.nats import NatsSettings, StreamSettings
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once
from realkube.process import Process, free_ports, wait_until

CLIENTS = (1, 32, 128)
CALLS = {1: 300, 32: 3000, 128: 3000}
WARM = 300
COLD = 7
MANY = 3000
WORKERS, CONCURRENCY = 4, 8
PAYLOAD = {"x": 1}
ECHO = "def main(payload):\n    return payload\n"
PATIENCE = 180.0

_numbers = count()


@dataclass
class Api:
    """A client of the REST API."""

    url: str
    session: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        async with self.session.request(method, f"{self.url}/api/v1{path}", json=body) as response:
            answer: dict[str, Any] = await response.json() if response.status != 204 else {}
            if response.status >= 300:
                raise RuntimeError(f"{method} {path}: {response.status} {answer}")
            return answer

    async def function(self, name: str, **fields: Any) -> None:
        unit = {"specName": "cpu.small", "memory": "256Mi", "gpu": 0, **fields.pop("unit", {})}
        body = {"operationID": f"fn-{name}", "name": name, "unit": unit, "handler": {"source": ECHO, "entry": "main"}}
        await self.call("POST", "/serverless/functions", {**body, "invocationTimeoutSeconds": 60, **fields})

    async def workers(self, name: str, ready: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                data = (await self.call("GET", f"/serverless/functions/{name}"))["data"]
                if data.get("readyWorkers", 0) == ready and (ready or not data.get("workers")):
                    return
                await asyncio.sleep(0.1)

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while any(each["name"] == name for each in (await self.call("GET", "/serverless/functions"))["data"]):  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def submit(self, name: str, **fields: Any) -> dict[str, Any]:
        body = {"serverlessRequestID": name, "payload": PAYLOAD, **fields}
        data: dict[str, Any] = (await self.call("POST", "/serverless/invocations", body))["data"]
        return data


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        uvloop.run(measure(Path(folder)))


async def measure(folder: Path) -> None:
    with nats(folder) as url:
        ceiling = await broker_ceiling(url)
    with up(folder) as address:
        patience = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patience) as session:
            api = Api(address, session)
            await acceptance(api, ceiling)
            await warm(api)
            await throughput(api)
            worker_memory()
            await cold(api, "without stock", {})
            await cold_with_stock(api)


# The broker alone.


@contextmanager
def nats(folder: Path) -> Iterator[str]:
    """A broker of its own with fsync on every write, as `up` runs it."""
    (port,) = free_ports(1)
    config = folder / "nats.conf"
    store = f'jetstream {{ store_dir: "{folder / "nats"}", sync_interval: always }}'
    config.write_text(f'listen: "127.0.0.1:{port}"\n{store}\n')
    program = Path(sys.executable).with_name("nats-server")
    process = Process("nats-server", [program, "-c", config], folder / "nats.log")
    try:
        wait_until(lambda: "Server is ready" in (folder / "nats.log").read_text(), "the broker is ready", [process])
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Broker]:
    async with Broker(NatsSettings(url=url), "benchmark") as broker:
        await broker.connected()
        yield broker


async def broker_ceiling(url: str) -> dict[int, float]:
    """Conditional publishes of a small invocation a second, straight at the broker."""
    rates = {}
    async with connected(url) as broker:
        await streams.ensure(broker, StreamSettings(invocationsBytes=2**28, resultsBytes=2**28, bodiesBytes=2**28))
        body = json.dumps({"payload": PAYLOAD, "padding": "x" * 500}).encode()

        async def publish(number: int) -> None:
            subject = f"inv.ns.fn.id-{number}.1"
            assert await publish_once(broker, f"{subject}.n", body, free=f"{subject}.*") is not None

        for clients in CLIENTS:
            calls = CALLS[clients]
            seconds, _ = await spread([next(_numbers) for _ in range(calls)], clients, publish)
            rates[clients] = calls / seconds
            print(
                f"ceiling: conditional publishes, {clients:>3} in flight           {rates[clients]:.0f}/s", flush=True
            )
    return rates


# The product.


@contextmanager
def up(folder: Path) -> Iterator[str]:
    """Everything on this machine; the address of its API."""
    (port,) = free_ports(1)
    data, log = folder / "data", folder / "up.log"
    command = [sys.executable, "-m", "gpu_runtime.cli", "up", "--data-dir", str(data), "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        while "Ctrl-C stops everything" not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        assert Layout.at(data).remembered() is not None
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


async def acceptance(api: Api, ceiling: dict[int, float]) -> None:
    """Into the queue of a function whose workers can never start: nothing else costs time meanwhile."""
    await api.function("parked", unit={"specName": "none.1", "gpu": 1}, maxWorkers=1)
    for clients in CLIENTS:
        calls = CALLS[clients]
        seconds, each = await spread(range(calls), clients, lambda _: api.submit("parked"))
        rate = calls / seconds
        goal = "   must 500/s, target 1,500/s" if clients == 32 else ""
        print(
            f"{f'accepted, {clients} clients':<52} {rate:.0f}/s, {told(each)}   "
            f"{100 * rate / ceiling[clients]:.0f} % of the broker{goal}",
            flush=True,
        )
    await api.call("DELETE", "/serverless/functions/parked?pending=cancel")
    await api.gone("parked")  # what follows must not pay for the cancellations


async def warm(api: Api) -> None:
    """From acceptance to the call of the function, and from its end to the moment that a client sees the result."""
    await api.function("warm", minWorkers=1, maxWorkers=1, concurrency=CONCURRENCY)
    await api.workers("warm", 1)
    starts, seen = [], []
    for number in range(WARM):
        name = f"warm-{number}"
        await api.submit("warm", invocationID=name)
        path = f"/serverless/invocations/{name}?function=warm&wait=30s"
        data = (await api.call("GET", path))["data"]
        now = datetime.now(UTC)
        assert data["state"] == "succeeded", data
        starts.append((moment(data["startedAt"]) - moment(data["acceptedAt"])).total_seconds())
        seen.append((now - moment(data["completedAt"])).total_seconds())
    print(f"{'accepted to worker start, warm':<52} {told(starts)}   must p50 10 ms, p99 50 ms, target 4 ms", flush=True)
    print(f"{'result visible after the function finished':<52} {told(seen)}", flush=True)
    await api.call("DELETE", "/serverless/functions/warm")


async def throughput(api: Api) -> None:
    await api.function("many", minWorkers=WORKERS, maxWorkers=WORKERS, concurrency=CONCURRENCY)
    await api.workers("many", WORKERS)
    began = time.perf_counter()
    for start in range(0, MANY, 500):
        calls = [{"serverlessRequestID": "many", "payload": PAYLOAD} for _ in range(start, start + 500)]
        await api.call("POST", "/serverless/invocations/batch", {"invocations": calls})
    async with asyncio.timeout(PATIENCE):
        while (left := await unfinished(api, "many")) > 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05 if left < 200 else 0.2)
    rate = MANY / (time.perf_counter() - began)
    what = f"{MANY} calls end to end, {WORKERS} workers of {CONCURRENCY}"
    print(f"{what:<52} {rate:.0f}/s", flush=True)


async def unfinished(api: Api, name: str) -> int:
    data = (await api.call("GET", f"/serverless/functions/{name}"))["data"]
    return int(data.get("queued") or 0) + int(data.get("running") or 0)


def worker_memory() -> None:
    """Memory that belongs to each worker: shared pages are counted by their share."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"worker" in words and any(b"gpu" in word for word in words[:3]):
                pss = re.search(r"^Pss:\s+(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)
                found += [int(pss[1]) / 1024] if pss is not None else []
        except OSError:  # it has ended
            continue
    if found:
        print(f"{'memory of a worker':<52} {statistics.median(found):.0f} MiB, median of {len(found)}", flush=True)


async def cold(api: Api, what: str, unit: dict[str, Any]) -> None:
    """From zero workers: from the request to its result."""
    name = f"cold-{'stock' if unit else 'plain'}"
    await api.function(name, unit=unit, minWorkers=0, maxWorkers=1, idleTimeoutSeconds=1)
    each = []
    for _ in range(COLD):
        await api.workers(name, 0)
        began = time.perf_counter()
        answer = await api.submit(name, mode="sync")
        each.append(time.perf_counter() - began)
        assert answer["state"] == "succeeded", answer
    await api.call("DELETE", f"/serverless/functions/{name}")
    print(f"{f'cold start from zero, {what}':<52} {told(sorted(each))}   embedded target p50 400 ms", flush=True)


async def cold_with_stock(api: Api) -> None:
    size = {"specName": "g1.1", "memory": "256Mi", "gpu": 1}
    await api.call("POST", "/operator/stock-units", {"operationID": "stock", **size, "replicas": 8})
    async with asyncio.timeout(PATIENCE):
        while True:
            job = (await api.call("GET", "/operator/jobs/stock"))["data"]
            if job["status"] == "succeeded":
                break
            await asyncio.sleep(0.2)
    await asyncio.sleep(5)  # the pods of the stock start
    await cold(api, "with stock", size)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def told(each: list[float]) -> str:
    ordered = sorted(each)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {1000 * statistics.median(ordered):.1f} ms, p99 {1000 * p99:.1f} ms"
