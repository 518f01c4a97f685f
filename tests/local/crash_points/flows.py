"""One request stopped at one of its writes, and what must be true after that, with and without a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from equipment.fault_proxy import CrashPoint, FaultProxy, crash_points
from equipment.waiting import eventually
from gpu_runtime.controllers.gpuunit.role import is_inert
from gpu_runtime.kube.errors import AlreadyExists
from gpu_runtime.service.cluster import GPU_UNITS, STOCK_POOLS
from kube.http.api import Answer, Api, Places, pool_request, unit_request

CLAIMED = "runtime.lokiwager.io/claimed-by"
STOCK = "g1.1"

Victim = int | Callable[[], object]
Document = dict[str, Any]
Change = Counter[tuple[str, str, str]]
"""Kind, namespace and what became of it, with the number of such objects."""


@dataclass(frozen=True)
class Flow:
    """One request: how to send it, and what a replay of it is answered."""

    send: Callable[[Api, Places, int], Awaitable[Answer]]
    replayed: frozenset[int]


async def _create_pool(api: Api, world: Places, n: int) -> Answer:
    return await api.post("/operator/stockpools", pool_request(f"pool-{n}", f"pool-{n}", namespace=world.instance))


async def _seed(api: Api, world: Places, n: int) -> Answer:
    body = {"operationID": f"seed-{n}", "specName": f"s.{n}", "memory": "2Gi", "replicas": 3}
    return await api.post("/operator/stock-units", body)


async def _hand_over(api: Api, world: Places, n: int) -> Answer:
    return await api.post("/gpu-units", unit_request(f"unit-{n}", f"unit-{n}"))


async def _update(api: Api, world: Places, n: int) -> Answer:
    return await api.put("/gpu-units/fixed", {"image": f"image:{n}"})


async def _delete(api: Api, world: Places, n: int) -> Answer:
    return await api.delete(f"/gpu-units/fixed-{n}")


async def _delete_pool(api: Api, world: Places, n: int) -> Answer:
    return await api.delete(f"/operator/stockpools/fixed-{n}?namespace={world.instance}")


FLOWS = {
    "create pool": Flow(_create_pool, frozenset({200, 202})),
    "seed": Flow(_seed, frozenset({200, 202})),
    "hand over": Flow(_hand_over, frozenset({200, 201})),
    "update": Flow(_update, frozenset({200})),
    "delete": Flow(_delete, frozenset({204, 404})),
    "delete pool": Flow(_delete_pool, frozenset({204, 404})),
}


@dataclass(frozen=True)
class CleanRun:
    """What one request writes and changes when nothing disturbs it."""

    flow: Flow
    points: list[CrashPoint]
    change: Change

    @property
    def writes(self) -> int:
        return len(self.points) // 2


async def clean_run(flow: Flow, world: Places, proxy: FaultProxy) -> CleanRun:
    async with world.api(proxy.server) as api:
        await prepare(api, world, 0)
        before, mark = await world.listing(), proxy.mark()
        assert (await flow.send(api, world, 0)).status < 300
        await settled(world)
        change = changed(before, await world.listing())
        assert change, "a flow that changes nothing would pass every crash"
        return CleanRun(flow, crash_points(proxy.writes(since=mark)), change)


@asynccontextmanager
async def in_this_process(world: Places, proxy: FaultProxy) -> AsyncIterator[tuple[Api, Victim]]:
    """An API in the event loop of the test, and how to end it at once."""
    async with world.api(proxy.server) as api:
        yield api, api.kill


Start = Callable[[], AbstractAsyncContextManager[tuple[Api, Victim]]]


async def crash(clean: CleanRun, start: Start, world: Places, proxy: FaultProxy, turn: int, point: CrashPoint) -> None:
    """One crash, then a fresh process with its sweeper, then the replay."""
    async with world.api() as helper:
        await prepare(helper, world, turn)
    before = await world.listing()
    async with start() as (api, victim):
        kill = proxy.kill_at(point.n, victim, point.when)
        told = await answer(clean.flow.send(api, world, turn))
        await kill.happened()
    kill.remove()
    async with world.api() as fresh:
        await recover(fresh, world)
        change = changed(before, await world.listing())
        assert change in (Change(), clean.change), f"{point}: neither the start nor the end: {change}"
        if told is not None and told.status < 500:
            assert told.status < 300, f"{point}: the client was told {told}"
            assert change == clean.change, f"{point}: the client was told {told}, and it is not so"
    async with start() as (api, _):
        replay = await clean.flow.send(api, world, turn)
        assert replay.status in clean.flow.replayed, f"{point}: {replay}"
        await settled(world)
    change = changed(before, await world.listing())
    assert change == clean.change, f"{point}: the replay ended otherwise than the clean run: {change}"


async def prepare(api: Api, world: Places, n: int) -> None:
    """One free stock unit, a unit to change, a unit and a pool to delete."""
    await world.seed(api, 1, spec=STOCK, operation_id=f"stock-{n}")
    for name in {"fixed", f"fixed-{n}"} - {unit.metadata.name for unit in await world.units(world.instance)}:
        by_hand = {"metadata": {"namespace": world.instance, "name": name}, "spec": {"specName": STOCK, "image": "a"}}
        await world.client.create(GPU_UNITS, by_hand)
    pool = {"metadata": {"namespace": world.instance, "name": f"fixed-{n}"}, "spec": {"specName": STOCK, "replicas": 0}}
    with suppress(AlreadyExists):
        await world.client.create(STOCK_POOLS, pool)


async def answer(request: Awaitable[Answer]) -> Answer | None:
    """None where the client was cut off."""
    try:
        return await request
    except aiohttp.ClientError:
        return None


async def recover(api: Api, world: Places) -> None:
    """What sweeper and controller do in time, done now."""
    for _ in range(2):
        await world.known(api)
        await api.services.sweeper.sweep()
        await world.reconcile_inert()
    await settled(world)


async def settled(world: Places) -> None:
    """Every operation has ended, no stock is claimed, no unit waits for its admission."""

    async def nothing_under_way() -> bool:
        unfinished = [each["metadata"]["name"] for each in await world.listing() if pending(each)]
        claimed = [
            unit.metadata.name for unit in await world.units(world.stock) if CLAIMED in unit.metadata.annotations
        ]
        inert = [unit.metadata.name for unit in await world.units(world.instance) if is_inert(unit)]
        assert (unfinished, claimed, inert) == ([], [], [])
        return True

    await eventually(nothing_under_way, what="nothing is under way any more")


def pending(document: Document) -> bool:
    return document["kind"] == "Operation" and phase(document) in ("Pending", "Running")


def phase(document: Document) -> str:
    return str((document.get("status") or {}).get("phase", "Pending"))


def changed(before: list[Document], after: list[Document]) -> Change:
    """What happened to the objects, whatever their names."""
    old, new = ({each["metadata"]["uid"]: each for each in listed} for listed in (before, after))
    return Change(
        (each["kind"], each["metadata"]["namespace"], fate)
        for uid, each in (old | new).items()
        if (fate := _fate(old.get(uid), new.get(uid)))
    )


def _fate(old: Document | None, new: Document | None) -> str:
    if new is None:
        return "gone"
    said = f", {phase(new)}" if new["kind"] == "Operation" else ""
    if old is None:
        return f"made{said}"
    same = _decided(old) == _decided(new)
    return "" if same else f"changed{said}"


def _decided(document: Document) -> tuple[object, object, object]:
    meta = document["metadata"]
    return document["spec"], meta.get("annotations"), meta.get("labels")
