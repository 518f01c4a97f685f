"""Storages on a real control plane: creates over the REST API, beside the ceiling of bare creates."""

from __future__ import annotations

import uvloop

from benchmarks._load import Bench, bench, spread, told
from benchmarks._product import Product, running_product, start_processes

CLIENTS = 20
CREATES = 600


def main() -> None:
    with running_product() as product:
        uvloop.run(measure(product))


async def measure(product: Product) -> None:
    async with bench(product) as hands:
        bare = await bare_creates(hands)
        start_processes(product)
        await creates(hands, bare, "name")
        await creates(hands, bare, "operationID")


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
