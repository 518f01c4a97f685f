"""The process that works on an operation is stopped before and after every single write of it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy
from equipment.fault_proxy.kill import When
from equipment.judge import conservation, orphans
from equipment.waiting import eventually
from gpu_runtime.service.cluster import GPU_UNITS
from kube.http.api import Answer, Api, Places, pool_request, unit_request


@dataclass(frozen=True)
class Flow:
    """One request: how to send it, and what it has changed when it is done."""

    send: Callable[[Api, Places, int], Awaitable[Answer]]
    made: Callable[[Places, int], Awaitable[bool]]


async def _pool(api: Api, world: Places, n: int) -> Answer:
    return await api.post("/operator/stockpools", pool_request(f"pool-{n}", f"pool-{n}", namespace=world.instance))


async def _hand_over(api: Api, world: Places, n: int) -> Answer:
    return await api.post("/gpu-units", unit_request(f"unit-{n}", f"unit-{n}"))


async def _seed(api: Api, world: Places, n: int) -> Answer:
    body = {"operationID": f"seed-{n}", "specName": f"s.{n}", "memory": "2Gi", "replicas": 3}
    answer = await api.post("/operator/stock-units", body)
    if answer.status == 202:
        await _job(api, f"seed-{n}")
    return answer


async def _update(api: Api, world: Places, n: int) -> Answer:
    return await api.put("/gpu-units/fixed", {"image": f"image:{n}"})


async def _delete(api: Api, world: Places, n: int) -> Answer:
    return await api.delete(f"/gpu-units/fixed-{n}")


async def _job(api: Api, operation_id: str) -> None:
    async def ended() -> bool:
        return bool((await api.get(f"/operator/jobs/{operation_id}")).data["status"] == "succeeded")

    await eventually(ended, what=f"{operation_id} has ended")


async def _pool_made(world: Places, n: int) -> bool:
    return any(
        each["kind"] == "StockPool" and each["metadata"]["name"] == f"pool-{n}" for each in await world.listing()
    )


async def _unit_made(world: Places, n: int) -> bool:
    return any(unit.metadata.name == f"unit-{n}" for unit in await world.units(world.instance))


async def _stock_made(world: Places, n: int) -> bool:
    made = [unit for unit in await world.units(world.stock) if unit.spec.specName == f"s.{n}"]
    assert len(made) in (0, 3), f"{len(made)} of 3"
    return len(made) == 3


async def _updated(world: Places, n: int) -> bool:
    return any(unit.spec.image == f"image:{n}" for unit in await world.units(world.instance))


async def _deleted(world: Places, n: int) -> bool:
    return not any(unit.metadata.name == f"fixed-{n}" for unit in await world.units(world.instance))


FLOWS = {
    "create pool": Flow(_pool, _pool_made),
    "seed": Flow(_seed, _stock_made),
    "hand over": Flow(_hand_over, _unit_made),
    "update": Flow(_update, _updated),
    "delete": Flow(_delete, _deleted),
}
REPLAYED = {
    "create pool": {200, 202},
    "seed": {200, 202},
    "hand over": {200, 201},
    "update": {200},
    "delete": {204, 404},
}


@pytest.mark.parametrize("name", FLOWS)
async def test_a_crash_at_any_write_ends_clean_or_untouched_and_a_replay_ends_clean(
    name: str, world: Places, fault_proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = FLOWS[name]
    async with world.witnessed() as witness:
        writes = await clean_run(flow, world, fault_proxy)
        points: list[tuple[int, When]] = [(n, when) for n in range(1, writes + 1) for when in ("before", "after")]
        for turn, (n, when) in enumerate(points, 1):
            await crash(flow, REPLAYED[name], world, fault_proxy, turn, n, when)
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {writes} writes, {len(points)} crash points\n")
        assert len(points) == 2 * writes
        seen = await world.seen(witness)
        assert conservation(seen, stock_namespace=world.stock) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []


async def clean_run(flow: Flow, world: Places, proxy: FaultProxy) -> int:
    """The number of writes of one request that nothing disturbs."""
    async with world.api(proxy.server) as api:
        await prepare(api, world, 0)
        mark = proxy.mark()
        assert (await flow.send(api, world, 0)).status < 300
        return len(proxy.writes(since=mark))


async def prepare(api: Api, world: Places, n: int) -> None:
    """One free stock unit, and a unit to change and one to delete."""
    await world.seed(api, 1, spec="g1.1", operation_id=f"stock-{n}")
    for name in {"fixed", f"fixed-{n}"} - {unit.metadata.name for unit in await world.units(world.instance)}:
        by_hand = {"metadata": {"namespace": world.instance, "name": name}, "spec": {"specName": "g1.1", "image": "a"}}
        await world.client.create(GPU_UNITS, by_hand)


async def crash(
    flow: Flow, replayed: set[int], world: Places, proxy: FaultProxy, turn: int, n: int, when: When
) -> None:
    """One crash, then a fresh process with its sweeper, then the replay."""
    where = f"{when} write {n}"
    async with world.api(proxy.server) as api:
        await prepare(api, world, turn)
        kill = proxy.kill_at(n, api.kill, when)
        try:
            told = await flow.send(api, world, turn)
        except (aiohttp.ClientError, AssertionError):
            told = None
        await kill.happened()
    kill.remove()
    async with world.api() as fresh:
        await recover(fresh, world)
        done = await flow.made(world, turn)
        assert done or told is None or told.status >= 500, f"{where}: the client was told {told}"
        if told is not None and told.status == 202:
            assert done, f"{where}: accepted, and not there"
        replay = await flow.send(fresh, world, turn)
        assert replay.status in replayed, f"{where}: {replay}"
        assert await flow.made(world, turn), where
        await recover(fresh, world)
        assert not [unit for unit in await world.units(world.stock) if claimed(unit)], where


async def recover(api: Api, world: Places) -> None:
    """What sweeper and controller do in time, done now."""
    for _ in range(2):
        await world.known(api)
        await api.services.sweeper.sweep()
        await world.reconcile_inert()

    async def nothing_unfinished() -> bool:
        return not [each for each in await world.listing() if each["kind"] == "Operation" and pending(each)]

    await eventually(nothing_unfinished, what="every operation has ended")


def pending(record: dict[str, object]) -> bool:
    status = record.get("status") or {}
    assert isinstance(status, dict)
    return status.get("phase", "Pending") in ("Pending", "Running")


def claimed(unit: object) -> bool:
    return "runtime.lokiwager.io/claimed-by" in unit.metadata.annotations  # type: ignore[attr-defined]
