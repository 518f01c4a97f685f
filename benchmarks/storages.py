"""Storages on a real control plane: creates beside the ceiling of bare creates, and what a mount costs."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from typing import Any

import uvloop

from benchmarks._load import Bench, bench, onlooking, spread, told
from benchmarks._product import Product, running_product, start_processes

CLIENTS = 20
CREATES = 600
COUNTED = 20  # hand-overs without a mount, and as many with one
SETTLED_SECONDS = 5.0
STORAGES = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpustorages"


def main() -> None:
    with running_product() as product:
        uvloop.run(measure(product))


async def measure(product: Product) -> None:
    async with bench(product) as hands:
        bare = await bare_creates(hands)
        start_processes(product)
        await creates(hands, bare, "name")
        await creates(hands, bare, "operationID")
        async with onlooking(hands):
            await mounts(hands)


async def bare_creates(bench: Bench) -> float:
    """Creates of a custom object a second, straight at the API server."""
    path = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/default/gpustorages"
    head = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUStorage"}

    async def create(number: int) -> None:
        await bench.create(path, {**head, "metadata": {"name": f"bare-{number}"}, "spec": {"size": "1Gi"}})

    seconds, _ = await spread(range(CREATES), CLIENTS, create)
    print(f"ceiling: bare creates of GPUStorages           {CREATES / seconds:.0f}/s at {CLIENTS} clients", flush=True)
    return CREATES / seconds


async def creates(bench: Bench, bare: float, identified_by: str) -> None:
    async def create(number: int) -> None:
        name = f"by-{identified_by.lower()}-{number}"
        identity = {"operationID": name} if identified_by == "operationID" else {}
        await bench.post("/gpu-storages", {"name": name, "size": "20Gi", **identity})

    seconds, each = await spread(range(CREATES), CLIENTS, create)
    rate = CREATES / seconds
    what = f"{CREATES} storage creates, {CLIENTS} clients, by {identified_by}"
    print(
        f"{what:<52} {rate:.0f}/s, {told(each)}   {100 * rate / bare:.0f} % of bare creates; "
        "must 60/s, p99 500 ms, target 150/s, 100 ms",
        flush=True,
    )


async def mounts(bench: Bench) -> None:
    """Hand-overs without a mount and with one, one at a time: the difference is what attaching costs."""
    size = {"specName": "g1.1", "cpu": "100m", "memory": "64Mi", "gpu": 1}
    await bench.post("/operator/stock-units", {"operationID": "stock", **size, "replicas": 2 * COUNTED})
    await bench.until(lambda: len(bench.ready) >= 2 * COUNTED)
    for number in range(COUNTED):
        await bench.create("/api/v1/persistentvolumes", volume(f"data-{number}"))
        await bench.post("/gpu-storages", {"name": f"data-{number}", "size": "1Gi"})
    while any(not each.get("status", {}).get("mountable") for each in await data(bench)):  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    plain, without = await hand_overs(bench, range(COUNTED), {})
    mounted, attached = await hand_overs(bench, range(COUNTED, 2 * COUNTED), {"mountPath": "/data"})
    cost = (attached.total() - without.total()) / COUNTED
    print(f"{'a mount, in writes of a hand-over':<52} {cost:.1f}   target 2", flush=True)
    for (process, what), count in sorted((attached - without).items()):
        print(f"  {process + ': ' + what:<50} {count / COUNTED:.2f}", flush=True)
    more = 1000 * (statistics.median(mounted) - statistics.median(plain))
    print(f"{'a mount, claim to reply':<52} p50 {more:+.0f} ms   {told(plain)} without one", flush=True)


async def data(bench: Bench) -> list[dict[str, Any]]:
    return [each for each in await bench.listed(STORAGES) if each["metadata"]["name"].startswith("data-")]


async def hand_overs(
    bench: Bench, numbers: range, mount: dict[str, str]
) -> tuple[list[float], Counter[tuple[str, str]]]:
    """The seconds of each reply, and our writes until the units are Ready and everything rests."""
    await asyncio.sleep(SETTLED_SECONDS)
    before = bench.product.writes()

    async def hand_over(number: int) -> None:
        wanted = [{"name": f"data-{number % COUNTED}", **mount}] if mount else []
        body = {"operationID": f"unit-{number}", "name": f"unit-{number}", "specName": "g1.1", "image": "python:3.12"}
        await bench.post("/gpu-units", {**body, "storageMounts": wanted})

    _, each = await spread(numbers, 1, hand_over)
    await bench.until_ready(f"unit-{number}" for number in numbers)
    await asyncio.sleep(SETTLED_SECONDS)
    written = bench.product.writes() - before
    return each, Counter({key: count for key, count in written.items() if "leases" not in key[1]})


def volume(claim: str) -> dict[str, Any]:
    """A volume that waits for the claim: no provisioner runs beside this control plane."""
    return {
        "metadata": {"name": claim},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "rook-ceph-block",
            "claimRef": {"namespace": "runtime-instance", "name": claim},
            "hostPath": {"path": "/var/lib/nothing"},
        },
    }
