"""One request stopped at one of its writes, and what must be true after that, with and without a replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
import msgspec

from equipment.clock import Later
from equipment.fault_proxy import CrashPoint, FaultProxy, crash_points
from equipment.judge import orphans
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.provenance import is_inert
from gpu_runtime.config import ControllerManagerSettings, StockSettings
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Client, Manager, Recorder, load_config
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import AlreadyExists
from gpu_runtime.service.cluster import GPU_UNITS, STOCK_POOLS
from kube.http.api import Answer, Api, Places, pool_request, unit_request
from local.crash_points.content import Change, Document, changed, difference, everything

CLAIMED = "runtime.lokiwager.io/claimed-by"
STOCK = "g1.1"
LATER = Later()

Victim = int | Callable[[], object]


@dataclass(frozen=True)
class Flow:
    """One request: how to send it, and what a replay of it is answered."""

    send: Callable[[Api, Places, int], Awaitable[Answer]]
    replayed: frozenset[int]
    before: Callable[[Places, int], Awaitable[None]] | None = None
    """Makes what the request is about, beside what is there for every request."""


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
        await prepare(api, world, 0, flow)
        before, mark = await settled(world), proxy.mark()
        assert (await flow.send(api, world, 0)).status < 300
        change = changed(before, await settled(world), world, 0)
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
        await prepare(helper, world, turn, clean.flow)
    before = await settled(world)
    async with start() as (api, victim):
        kill = proxy.kill_at(point.n, victim, point.when)
        told = await answer(clean.flow.send(api, world, turn))
        await kill.happened()
    kill.remove()
    async with world.api() as fresh:
        change = changed(before, await recover(fresh, world), world, turn)
        wrong = difference(change, clean.change)
        assert change in (Change(), clean.change), f"{point}: neither the start nor the end: {wrong}"
        if told is not None and told.status < 500:
            assert told.status < 300, f"{point}: the client was told {told}"
            assert change == clean.change, f"{point}: the client was told {told}, and it is not so: {wrong}"
    async with start() as (api, _):
        replay = await clean.flow.send(api, world, turn)
        assert replay.status in clean.flow.replayed, f"{point}: {replay}"
        change = changed(before, await settled(world), world, turn)
    wrong = difference(change, clean.change)
    assert change == clean.change, f"{point}: the replay ended otherwise than the clean run: {wrong}"


@asynccontextmanager
async def reconciling(world: Places, clock: Clock = LATER) -> AsyncIterator[None]:
    """The controllers, for as long as the block lasts. By their clock all executors are late: they wait for none."""
    stop = asyncio.Event()
    settings = ControllerManagerSettings(
        installNamespace=world.system, stock=StockSettings(namespaces=(world.stock,)), workers=8
    )
    config = load_config(world.server.kubeconfig)
    async with Client(config, user_agent="controller") as client, asyncio.TaskGroup() as group:
        recorder = Recorder(client, "controller-manager", "test")
        manager = Manager(client, recorder=recorder)
        add_controllers(manager, settings, recorder=recorder, clock=clock)
        group.create_task(manager.run(stop))
        try:
            await asyncio.wait_for(manager.leading.wait(), 60)
            yield
        finally:
            stop.set()


async def prepare(api: Api, world: Places, n: int, flow: Flow) -> None:
    """One free stock unit, a unit to change, a unit and a pool to delete, all of them settled."""
    if flow.before is not None:
        await flow.before(world, n)
    body = {"operationID": f"stock-{n}", "specName": STOCK, "memory": "1Gi", "gpu": 1, "replicas": 1}
    assert (await api.post("/operator/stock-units", body)).status in (200, 202)
    for name in {"fixed", f"fixed-{n}"} - {unit.metadata.name for unit in await world.units(world.instance)}:
        spec = {"specName": STOCK, "image": "image:start", "memory": "1Gi"}
        await world.client.create(GPU_UNITS, {"metadata": {"namespace": world.instance, "name": name}, "spec": spec})
    pool = {"metadata": {"namespace": world.instance, "name": f"fixed-{n}"}, "spec": {"specName": STOCK, "replicas": 0}}
    with suppress(AlreadyExists):
        await world.client.create(STOCK_POOLS, pool)
    await settled(world)
    await world.known(api)


async def answer(request: Awaitable[Answer]) -> Answer | None:
    """None where the client was cut off."""
    try:
        return await request
    except aiohttp.ClientError:
        return None


async def recover(api: Api, world: Places) -> list[Document]:
    """What the sweeper does in time, done now; the controllers run anyway. Everything that is then left."""
    for _ in range(2):
        await world.known(api)
        await api.services.sweeper.sweep()
        left = await settled(world)
    return left


async def settled(world: Places) -> list[Document]:
    """Everything there is, once nothing is under way: neither an operation nor a workload."""
    last: list[Document] = []

    async def nothing_under_way() -> list[Document]:
        nonlocal last
        listed = await everything(world)
        same = versions(listed) == versions(last)
        last = listed
        assert [problem for each in listed for problem in under_way(each, world)] == []
        assert held_for_nothing(listed) == []
        assert orphans([each for each in listed if each["kind"] != "Pod"], stock_namespace=world.stock) == []
        assert same, "something was written a moment ago"
        return listed

    return await eventually(nothing_under_way, what="nothing is under way any more")


def versions(listed: list[Document]) -> set[tuple[str, str]]:
    return {(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in listed}


def under_way(document: Document, world: Places) -> list[str]:
    """What an object still waits for, if anything."""
    kind, meta, status = document["kind"], document["metadata"], document.get("status") or {}
    name = f"{kind} {meta['name']}"
    if "deletionTimestamp" in meta:
        return [f"{name} is being deleted"]
    match kind:
        case "Operation":
            return [f"{name} is {phase(document)}"] if phase(document) in ("Pending", "Running") else []
        case "GPUUnit":
            unit = msgspec.convert(document, GPU_UNITS.struct, strict=False)
            claimed = meta["namespace"] == world.stock and CLAIMED in unit.metadata.annotations
            inert = meta["namespace"] == world.instance and is_inert(unit)
            done = status.get("phase") == "Ready" and status.get("observedGeneration") == meta["generation"]
            return [name] if claimed or inert or not done else []
        case "GPUStorage":
            mirrored = json.loads(meta.get("annotations", {}).get(ATTACHED_TO, "null")) == status.get("attachedTo")
            done = status.get("phase") == "Ready" and status.get("observedGeneration") == meta["generation"]
            return [] if mirrored and done else [name]
        case "StockPool":
            return [] if status.get("observedGeneration") == meta["generation"] else [name]
        case "Deployment":
            seen = status.get("observedGeneration") == meta["generation"]
            return [] if seen and status.get("replicas", 0) == document["spec"]["replicas"] else [name]
        case "Pod":
            return [] if status.get("phase") == "Running" else [f"{name} is {status.get('phase')}"]
    return []


def held_for_nothing(listed: list[Document]) -> list[str]:
    """Storages whose holder does not mount them: their controller is about to free them."""
    mounting = {
        (each["metadata"]["name"], mount["name"])
        for each in listed
        if each["kind"] == "GPUUnit"
        for mount in each["spec"].get("storageMounts") or []
    }
    records = {
        each["metadata"]["name"]: json.loads(text)
        for each in listed
        if each["kind"] == "GPUStorage" and (text := each["metadata"].get("annotations", {}).get(ATTACHED_TO))
    }
    return [name for name, record in records.items() if (record.get("unit"), name) not in mounting]


def phase(document: Document) -> str:
    return str((document.get("status") or {}).get("phase", "Pending"))
