"""A hand-over played by hand on a real server with our CRDs: the judge finds it right, and a theft in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from equipment.builders import Builder, a_deployment, a_stock_pool, a_storage, a_unit, an_operation
from equipment.fault_proxy import FaultProxy
from equipment.judge import (
    StockCount,
    Timeline,
    Witness,
    conservation,
    count_stock,
    list_objects,
    one_effect,
    orphans,
    premature_workloads,
    timeline,
)
from equipment.servers import ApiServer, fresh_namespace
from realkube.process import wait_until

CRDS = Path(__file__).resolve().parents[3] / "config" / "crd"
KINDS = "/apis/runtime.lokiwager.io/v1alpha1"

B = TypeVar("B", bound=Builder)


@pytest.fixture(scope="module")
def crds(api_server: ApiServer) -> None:
    api_server.kubectl("apply", "-k", str(CRDS))
    api_server.kubectl("wait", "-f", str(CRDS / "bases"), "--for=condition=Established", "--timeout=60s")
    # A new kind is established a moment before its storage is there; until then all that is asked about it gets a 429.
    places = [f"{KINDS}/{kind}" for kind in ("gpuunits", "operations")]
    wait_until(lambda: all(api_server.request("GET", each).status == 200 for each in places), "our kinds are served")


@pytest.fixture
def instances(api_server: ApiServer) -> Iterator[str]:
    """A namespace for active units, beside the one for stock."""
    with fresh_namespace(api_server, "instances") as name:
        yield name


class Hands:
    """Writes objects through the proxy, and gives back what the server stored."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    async def create(self, builder: B) -> B:
        return await self._write("POST", _collection(builder), builder)

    async def update(self, builder: B) -> B:
        return await self._write("PUT", _path(builder), builder)

    async def delete(self, builder: Builder) -> None:
        answer = await asyncio.to_thread(self._proxy.server.request, "DELETE", _path(builder))
        assert answer.status == 200, answer

    async def _write(self, method: str, path: str, builder: B) -> B:
        answer = await asyncio.to_thread(self._proxy.server.request, method, path, builder.document())
        assert answer.status < 300, answer
        return type(builder)(answer.body)


def _collection(builder: Builder) -> str:
    document = builder.document()
    group = "/apis/" + document["apiVersion"]
    return f"{group}/namespaces/{document['metadata']['namespace']}/{document['kind'].lower()}s"


def _path(builder: Builder) -> str:
    return f"{_collection(builder)}/{builder.name}"


@pytest.mark.usefixtures("crds")
async def test_a_real_hand_over_holds_the_invariants_and_a_theft_breaks_them(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str, instances: str
) -> None:
    hands = Hands(fault_proxy)
    paths = [
        f"{KINDS}/namespaces/{place}/{kind}" for place in (namespace, instances) for kind in ("gpuunits", "operations")
    ] + [f"/apis/apps/v1/namespaces/{instances}/deployments"]
    async with Witness(api_server, paths) as witness:
        await hands.create(a_unit("s0", namespace))
        stock = await hands.create(a_unit("s1", namespace))
        operation = await hands.create(an_operation("op1").in_namespace(instances))
        claimed = await hands.update(stock.claimed_by(operation))
        unit = await hands.create(a_unit("u1", instances).made_by(operation))
        operation = await hands.update(operation.making(unit).committed())
        unit = await hands.update(unit.consuming(claimed))
        await hands.delete(claimed)
        child = await hands.create(a_deployment("u1", instances).controlled_by(unit))
        await witness.caught_up(child.document()["metadata"]["resourceVersion"])

        def judged(seen: Timeline) -> list[str]:
            return [
                *one_effect(seen, stock_namespace=namespace),
                *conservation(seen, seeded=2, stock_namespace=namespace),
                *premature_workloads(seen, stock_namespace=namespace),
            ]

        listed = await list_objects(api_server, *paths)
        written = timeline(fault_proxy.writes(), after=listed)
        watched = timeline(before=witness.before, events=witness.events)
        assert judged(written) == judged(watched) == []
        assert count_stock(watched, stock_namespace=namespace) == StockCount(free=1, handed_over=1)
        assert orphans(listed, stock_namespace=namespace) == []

        await hands.create(a_unit("thief", instances).consuming(claimed))
        stolen = timeline(fault_proxy.writes(), after=await list_objects(api_server, *paths))
        assert any("has two owners" in violation for violation in judged(stolen))


@pytest.mark.usefixtures("crds")
async def test_a_real_server_takes_our_own_kinds_as_the_builders_make_them(
    fault_proxy: FaultProxy, namespace: str
) -> None:
    hands = Hands(fault_proxy)
    await hands.create(a_unit("u", namespace).gpu(1).memory("16Gi").image("python:3.12").port(8080).mounting("d"))
    await hands.create(a_stock_pool("p", namespace).replicas(3))
    await hands.create(a_storage("d", namespace).size("20Gi"))
    operation = an_operation("op").choosing(a_unit("s", "runtime-stock").with_uid("s")).failed()
    stored = await hands.create(operation.in_namespace(namespace))
    assert stored.object().status.phase == "Failed"
