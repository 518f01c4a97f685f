"""A reconciler of storages that dies at any of its writes: the next one goes on, and no data is lost or left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from equipment.fault_proxy import CrashPoint, FaultProxy, crash_points
from equipment.waiting import eventually
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.kube import Client
from kube.runtime.storage_world import StorageWorld, reconciling
from kube.runtime.test_storages import controllers, installed, world

__all__ = ["controllers", "installed", "world"]

Step = Callable[[StorageWorld], Awaitable[object]]


async def create(world: StorageWorld) -> None:
    await world.bound("1Gi")


async def resize(world: StorageWorld) -> None:
    await world.change({"spec": {"size": "2Gi"}})
    await world.asks_for("2Gi")
    await world.grow_volume("2Gi")
    assert (await world.becomes("StorageReady")).status.capacity == "2Gi"


async def delete(world: StorageWorld) -> None:
    await world.client.delete(GPU_STORAGES, world.key)
    await world.gone()


async def nothing(_: StorageWorld) -> None:
    return


STEPS: dict[str, tuple[Step, Step, Step]] = {
    # before it, the step that is interrupted, after it
    "create": (nothing, create, delete),
    "resize": (create, resize, delete),
    "delete": (create, delete, nothing),
}


@pytest.mark.parametrize("name", STEPS)
async def test_a_reconciler_that_dies_at_any_write_leaves_its_work_to_the_next(
    world: StorageWorld, proxied: Client, fault_proxy: FaultProxy, name: str
) -> None:
    before, step, after = STEPS[name]
    await world.add_class()
    mark = 0
    async with reconciling(proxied):
        await before(world)
        mark = fault_proxy.mark()
        await step(world)
        clean = fault_proxy.writes(since=mark)
        await after(world)
    points = crash_points(clean)
    assert len(points) >= 4, [str(each) for each in points]
    deaths = 0
    for point in points:
        await world.lose_volume()
        deaths += await dies_at(point, world, proxied, fault_proxy, before, step)
        async with reconciling(proxied):
            await after(world)
    # A status that says "growing" may be skipped in another run, which then has fewer writes.
    assert deaths >= len(points) - 2, f"the reconciler died at {deaths} of {len(points)} points"


async def dies_at(
    point: CrashPoint, world: StorageWorld, proxied: Client, fault_proxy: FaultProxy, before: Step, step: Step
) -> bool:
    """Whether the first reconciler died at the point. The claim is the same one before and after."""
    died = asyncio.Event()

    def die() -> None:
        first.cancel()
        died.set()

    async def process() -> None:
        async with reconciling(proxied):
            ready.set()
            await asyncio.Event().wait()

    ready = asyncio.Event()
    first = asyncio.create_task(process())
    await ready.wait()
    await before(world)
    uids = await claim_uids(world)
    kill = fault_proxy.kill_at(point.n, die, point.when)
    person = asyncio.create_task(_as_coroutine(step(world)))
    await eventually(lambda: died.is_set() or person.done(), what=f"the reconciler died {point}")
    if not died.is_set():
        first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    kill.remove()
    async with reconciling(proxied):
        await person
    assert await claim_uids(world) <= uids or not uids, f"another claim {point}"
    return died.is_set()


async def claim_uids(world: StorageWorld) -> set[str]:
    return {each.metadata.uid for each in await world.left(CLAIMS)}


async def _as_coroutine(step: Awaitable[object]) -> object:
    return await step
