"""A kind that this test brings along is reconciled with the writers of `kube/`, and nothing in `src` knows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from equipment.fault_proxy import CrashPoint, FaultProxy, crash_points, watches, writes
from equipment.waiting import eventually
from equipment.world import DEFINITIONS
from gpu_runtime.api.meta.condition import Condition, find_condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Client, Manager, NotFound, Query, Resource
from gpu_runtime.kube.builtin import CONFIG_MAPS
from kube.runtime.toy import BOXES, FINALIZER, Toy, ToySpec, add_toys, install_toys


@pytest.fixture
async def toys(client: Client) -> AsyncIterator[Resource[Toy]]:
    resource = await install_toys(client)
    yield resource
    await client.delete(DEFINITIONS, Key("", resource.qualified_name))


@asynccontextmanager
async def reconciling(client: Client, toys: Resource[Toy], namespace: str) -> AsyncIterator[Manager]:
    """One replica, inside the block."""
    stop, manager = asyncio.Event(), Manager(client)
    add_toys(manager, toys, namespace)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        try:
            await asyncio.wait_for(manager.leading.wait(), 60)
            yield manager
        finally:
            stop.set()


def a_toy(namespace: str, size: int = 1) -> Toy:
    return Toy(metadata=ObjectMeta(name="bear", namespace=namespace), spec=ToySpec(size=size))


async def ready(client: Client, toys: Resource[Toy], namespace: str, size: int = 1) -> Toy:
    async def probe() -> Toy:
        toy = await client.get(toys, Key(namespace, "bear"))
        condition = find_condition(toy.status.conditions, "Ready")
        assert condition is not None
        assert condition.message == f"the box has size {size}"
        return toy

    return await eventually(probe, what="the toy is Ready")


async def gone(client: Client, toys: Resource[Toy], namespace: str) -> None:
    async def probe() -> bool:
        try:
            await client.get(toys, Key(namespace, "bear"))
        except NotFound:
            return True
        return False

    await eventually(probe, what="the toy is gone")


async def boxes(client: Client, namespace: str) -> list[str]:
    listing = await client.list(Query(CONFIG_MAPS, namespace, labels=BOXES))
    return [each.metadata.name for each in listing.items]


async def test_it_has_two_conditions_a_child_and_a_finalizer_and_leaves_nothing_behind(
    client: Client, proxied: Client, fault_proxy: FaultProxy, toys: Resource[Toy], namespace: str
) -> None:
    async with reconciling(proxied, toys, namespace):
        await client.create(toys, a_toy(namespace))
        toy = await ready(client, toys, namespace)
        assert {each.type: each.status for each in toy.status.conditions} == {"Ready": "True", "Large": "False"}
        assert toy.metadata.finalizers == [FINALIZER]
        assert await boxes(client, namespace) == ["bear-box"]
        await client.delete(CONFIG_MAPS, Key(namespace, "bear-box"))
        await eventually(lambda: boxes(client, namespace), what="the box is made again")
        await client.delete(toys, Key(namespace, "bear"))
        await gone(client, toys, namespace)
        assert await boxes(client, namespace) == []
    first = [str(each.call.verb) for each in fault_proxy.writes()][:3]
    assert first == ["patch", "create", "update"], "the finalizer is there before the first side effect"


async def test_a_condition_of_another_writer_and_the_times_of_ours_survive(
    client: Client, proxied: Client, fault_proxy: FaultProxy, toys: Resource[Toy], namespace: str
) -> None:
    async with reconciling(proxied, toys, namespace) as manager:
        await client.create(toys, a_toy(namespace))
        before = await ready(client, toys, namespace)
        theirs = Condition(
            type="Theirs", status="True", reason="Ok", lastTransitionTime=before.metadata.creationTimestamp
        )
        conditions = [theirs, *before.status.conditions]
        await client.patch(toys, before.metadata.key, {"status": {"conditions": conditions}}, subresource="status")
        await client.patch(toys, before.metadata.key, {"spec": {"size": 20}})
        after = await ready(client, toys, namespace, size=20)
        assert [each.type for each in after.status.conditions] == ["Theirs", "Ready", "Large"]
        assert after.status.conditions[0] == theirs
        assert after.status.conditions[1].lastTransitionTime == before.status.conditions[0].lastTransitionTime
        assert after.status.conditions[2].status == "True"
        await resynced(manager)
        mark = fault_proxy.mark()
        for _ in range(3):
            await resynced(manager)
        assert fault_proxy.count(writes(), since=mark) == 0, "nothing changed, so nothing is written"


async def resynced(manager: Manager) -> None:
    """Every toy was reconciled once more."""
    before = reconciles(manager)
    for controller in manager._controllers:
        controller.resync()
    await eventually(lambda: reconciles(manager) > before, what="the toy was reconciled")


def reconciles(manager: Manager) -> float:
    samples = [sample for family in manager.metrics.registry.collect() for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == "controller_reconciles_total")


async def life(client: Client, toys: Resource[Toy], namespace: str) -> None:
    """What a person does: create, wait, delete, wait."""
    await client.create(toys, a_toy(namespace))
    await ready(client, toys, namespace)
    await client.delete(toys, Key(namespace, "bear"))
    await gone(client, toys, namespace)


async def test_a_process_that_dies_at_any_write_leaves_its_work_to_the_next(
    client: Client, proxied: Client, fault_proxy: FaultProxy, toys: Resource[Toy], namespace: str
) -> None:
    async with reconciling(proxied, toys, namespace):
        await life(client, toys, namespace)
    points = crash_points(fault_proxy.writes())
    assert len(points) >= 10, "finalizer, box, status, box deleted, finalizer removed"
    for point in points:
        await dies_at(point, client, proxied, fault_proxy, toys, namespace)
        assert await boxes(client, namespace) == [], str(point)


async def dies_at(
    point: CrashPoint, client: Client, proxied: Client, fault_proxy: FaultProxy, toys: Resource[Toy], namespace: str
) -> None:
    died = asyncio.Event()

    def die() -> None:
        first.cancel()
        died.set()

    async def process() -> None:
        async with reconciling(proxied, toys, namespace):
            await asyncio.Event().wait()

    first = asyncio.create_task(process())
    kill = fault_proxy.kill_at(point.n, die, point.when)
    person = asyncio.create_task(life(client, toys, namespace))
    await eventually(lambda: died.is_set() or person.done(), what=f"the process died {point}")
    await asyncio.gather(first, return_exceptions=True)
    kill.remove()
    async with reconciling(proxied, toys, namespace):
        await person


async def test_a_replica_that_does_not_see_the_deletion_leaves_no_box_behind(
    client: Client, proxied: Client, fault_proxy: FaultProxy, toys: Resource[Toy], namespace: str
) -> None:
    async with reconciling(proxied, toys, namespace) as late, reconciling(client, toys, namespace):
        await client.create(toys, a_toy(namespace))
        await ready(client, toys, namespace)
        await resynced(late)
        frozen = fault_proxy.on(watches("toys")).freeze()
        mark = fault_proxy.mark()
        await client.delete(toys, Key(namespace, "bear"))
        await fault_proxy.seen(writes("configmaps"), since=mark)  # it makes the box again, by its old cache
        await gone(client, toys, namespace)
        frozen.thaw()
        await eventually(lambda: not late._controllers[0].queue.pending(), what="the late replica is at rest")

        async def none_left() -> bool:
            return await boxes(client, namespace) == []

        await eventually(none_left, what="no box is left")
