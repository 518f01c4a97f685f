"""The controller runtime on a real API server: creates beside a bare aiohttp loop, watch events, memory of a cache."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
import msgspec
import uvloop
import yaml

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.kube import Client, Controller, NotFound, Query, Resource, Result, Store, load_config, primary
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap
from realkube.control_plane import ControlPlane

ROUNDS = 24
CREATES = 64  # a round
IN_FLIGHT = 16
OBJECTS = 10_000
WATCHES = 3
CRD = Path(__file__).parent.parent / "config/crd/bases/runtime.lokiwager.io_gpuunits.yaml"
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", ConfigMap, namespaced=False
)
UNITS = Resource("runtime.lokiwager.io", "v1alpha1", "GPUUnit", "gpuunits", GPUUnit)

Send = Callable[[str], Awaitable[object]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "plane", say=lambda _: None) as plane:
        uvloop.run(measure(plane.kubeconfig))


async def measure(kubeconfig: Path) -> None:
    config = load_config(kubeconfig)
    async with Client(config) as client:
        await creates(client)
        await client.create(DEFINITIONS, yaml.safe_load(CRD.read_text()))
        await populate(client)
        await watch_events(client)
    await memory(kubeconfig)


async def creates(client: Client) -> None:
    """Creates by our client beside a bare aiohttp loop, which sends the same over TLS and reads the answer's bytes.

    Ours also makes the body from a typed object and the answer into one, and names what failed. Short rounds take
    turns, and the median one counts, so that both meet the same neighbours.
    """
    token = await client.config.token.token()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=client.config.ssl or True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        url = client.config.server + CONFIG_MAPS.path("default")

        async def bare(name: str) -> None:
            meta = {"name": name, "namespace": "default"}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": "x"}}
            async with session.post(url, data=msgspec.json.encode(document)) as response:
                assert response.status == 201, await response.text()
                await response.read()

        async def ours(name: str) -> None:
            meta = ObjectMeta(name=name, namespace="default")
            await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={"text": "x"}))

        for width in (1, IN_FLIGHT):
            await timed(bare, f"bare-{width}-first", width)  # opens the connections
            await timed(ours, f"ours-{width}-first", width)
            rounds: dict[str, list[Spent]] = {"bare": [], "ours": []}
            for turn in range(ROUNDS):
                for who, send in (("bare", bare), ("ours", ours)) if turn % 2 else (("ours", ours), ("bare", bare)):
                    rounds[who].append(await timed(send, f"{who}-{width}-{turn}", width))
            rate = {who: CREATES / median(spent.seconds for spent in times) for who, times in rounds.items()}
            cpu = {who: 1e6 * median(spent.cpu for spent in times) / CREATES for who, times in rounds.items()}
            print(
                f"creates, {width:>2} in flight: {rate['ours']:6.0f}/s ours, {rate['bare']:6.0f}/s bare aiohttp "
                f"= {100 * rate['ours'] / rate['bare']:.0f} %; CPU a create {cpu['ours']:.0f} us ours, "
                f"{cpu['bare']:.0f} us bare",
                flush=True,
            )


class Spent(NamedTuple):
    seconds: float
    cpu: float


async def timed(send: Send, prefix: str, width: int) -> Spent:
    names = iter(f"{prefix}-{number}" for number in range(CREATES))

    async def worker() -> None:
        for name in names:
            await send(name)

    began, busy = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(worker())
    return Spent(time.perf_counter() - began, time.process_time() - busy)


async def populate(client: Client) -> None:
    while True:
        try:
            await client.list(Query(UNITS))
            break
        except NotFound:
            await asyncio.sleep(0.1)  # the server serves a new kind a moment after its definition
    numbers = iter(range(OBJECTS))

    async def worker() -> None:
        for number in numbers:
            meta = ObjectMeta(name=f"unit-{number:05}", namespace="default", labels={"spec": "g1.1", "n": str(number)})
            await client.create(UNITS, GPUUnit(metadata=meta, spec=GPUUnitSpec(specName="g1.1", memory="16Gi", gpu=1)))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(32):
            group.create_task(worker())
    print(f"{OBJECTS} GPUUnits created, 32 in flight: {OBJECTS / (time.perf_counter() - began):.0f}/s", flush=True)


async def watch_events(client: Client) -> None:
    """The server sends all objects as events: bytes alone first, then through decoding, store, queue and reconcile."""
    bytes_rate = await raw_events(client)
    best, cpu = 0.0, 0.0
    for _ in range(WATCHES):
        store, handled, finished = Store[GPUUnit](), 0, asyncio.Event()

        async def reconcile(_: Key) -> Result:
            nonlocal handled
            handled += 1
            if handled == OBJECTS:
                finished.set()  # noqa: B023  the loop awaits it before it goes on
            return Result()

        controller = Controller("bench", reconcile, [primary(store)])
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(0)
        began, busy, seen = time.perf_counter(), time.process_time(), 0
        async for event in client.watch(Query(UNITS), resource_version="0", timeout=60, silence=60):
            assert event.object is not None
            store.upsert(event.object)
            seen += 1
            if seen == OBJECTS:
                break
        await finished.wait()
        rate = OBJECTS / (time.perf_counter() - began)
        if rate > best:
            best, cpu = rate, (time.process_time() - busy) / OBJECTS
        controller.stop()
        await running
    print(
        f"watch events decoded, cached, queued and reconciled: {best:.0f}/s, {1e6 * cpu:.0f} us CPU an event; "
        f"the bytes alone: {bytes_rate:.0f}/s = {100 * best / bytes_rate:.0f} %",
        flush=True,
    )


async def raw_events(client: Client) -> float:
    best = 0.0
    for _ in range(WATCHES):
        began, seen = time.perf_counter(), 0
        path, parameters = UNITS.path(), {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "60"}
        async for chunk in client.stream(path, parameters=parameters):
            seen += chunk.count(b"\n")
            if seen >= OBJECTS:
                break
        best = max(best, OBJECTS / (time.perf_counter() - began))
    return best


async def memory(kubeconfig: Path) -> None:
    """In a process of its own: what 10,000 cached objects add to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.runtime", str(kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    print(out.decode().strip(), flush=True)


async def cache_and_report(kubeconfig: Path) -> None:
    async with Client(load_config(kubeconfig)) as client:
        await client.page(Query(UNITS), limit=1)
        gc.collect()
        before = resident()
        store = Store[GPUUnit]()
        listing = await client.list(Query(UNITS))
        store.replace(listing.items, listing.resource_version)
        del listing
        gc.collect()
        grown = resident() - before
        print(
            f"memory of {len(store)} cached GPUUnits: {grown / 2**20:.1f} MiB, "
            f"{grown / len(store) / 1024:.1f} KiB each; "
            f"peak of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
        )


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    uvloop.run(cache_and_report(Path(sys.argv[1])))
