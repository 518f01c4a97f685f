"""Changes of units as each of many watchers sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.selector import Selector
from gpu_runtime.service.feed import Change, Expired, Feed, Wanted
from gpu_runtime.service.views import unit_view
from gpu_runtime.service.watchers import WAKE_GROUP_SIZE

STOCK, HERE = "runtime-stock", "runtime-instance"
ALL = Wanted(HERE)
Seen = list[tuple[str, str, str]]


def a_unit(
    name: str, version: int, *, phase: Any = None, namespace: str = HERE, uid: str = "", **labels: str
) -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=uid or name, resourceVersion=str(version), labels=labels, generation=1
        ),
        spec=GPUUnitSpec(specName="g1", memory="1Gi", gpu=1),
        status=GPUUnitStatus(phase=phase or None, observedGeneration=1),
    )


class World:
    """A cache as its reflector fills it, and the feed on it."""

    def __init__(self, *units: GPUUnit, version: int = 10, most: int = 100) -> None:
        self.store = Store[GPUUnit]()
        self.feed = Feed(self.store, lambda unit: unit_view(unit, STOCK), without=STOCK, most=most)
        self.store.replace(units, str(version))

    def changed(self, unit: GPUUnit) -> None:
        self.store.upsert(unit)
        self.store.saw(unit.metadata.resourceVersion)

    def deleted(self, name: str, version: int) -> None:
        self.store.remove(Key(HERE, name))
        self.store.saw(str(version))

    async def seen(self, since: int, wanted: Wanted = ALL) -> Seen:
        """All that a watcher who comes now is told at once."""
        async with aclosing(self.feed.after(since, wanted, seconds=0, pause=60)) as batches:
            return [told(change) async for batch in batches for change in batch]


def told(change: Change) -> tuple[str, str, str]:
    return change.kind, change.view.name if change.view else "", change.version


@asynccontextmanager
async def watching(world: World, since: int, wanted: Wanted = ALL, pause: float = 60) -> AsyncIterator[Any]:
    """Gives the next changes that the watcher is told."""
    async with asyncio.timeout(50), aclosing(world.feed.after(since, wanted, seconds=60, pause=pause)) as batches:

        async def following() -> Seen:
            return [told(change) for change in await anext(batches)]

        yield following


async def test_every_change_is_told_once_in_its_order_with_the_version_to_resume_from() -> None:
    world = World(a_unit("a", 5))
    world.changed(a_unit("b", 11))
    world.changed(a_unit("a", 12))
    world.deleted("b", 13)
    assert await world.seen(10) == [("added", "b", "11"), ("modified", "a", "12"), ("deleted", "b", "13")]
    assert await world.seen(12) == [("deleted", "b", "13")]
    assert await world.seen(13) == []


async def test_other_namespaces_names_and_stock_are_not_told() -> None:
    world = World()
    world.changed(a_unit("a", 11, namespace="other"))
    world.changed(a_unit("s", 12, namespace=STOCK))
    world.changed(a_unit("b", 13))
    world.changed(a_unit("c", 14))
    assert await world.seen(10, Wanted(HERE, "c")) == [("added", "c", "14")]
    assert await world.seen(10, Wanted("other")) == [("added", "a", "11")]


@mutant("service/feed.py", 'self._change("deleted" if not matches else', 'self._change("modified" if not matches else')
@mutant("service/feed.py", "if not was and not matches:", "if not matches:")
async def test_a_unit_that_leaves_the_phase_is_deleted_to_whoever_watches_the_phase() -> None:
    world = World(a_unit("a", 5, phase="Ready"), a_unit("b", 6, phase="Failed"))
    ready = Wanted(HERE, phase="Ready")
    world.changed(a_unit("b", 11, phase="Ready"))
    world.changed(a_unit("a", 12, phase="Failed"))
    world.changed(a_unit("a", 13, phase="Pending"))
    world.deleted("a", 14)
    world.deleted("b", 15)
    assert await world.seen(10, ready) == [("added", "b", "11"), ("deleted", "a", "12"), ("deleted", "b", "15")]


async def test_a_unit_that_loses_its_label_is_deleted_to_whoever_selects_the_label() -> None:
    world = World(a_unit("a", 5, team="x"), a_unit("b", 6))
    mine = Wanted(HERE, labels=Selector.parse("team=x"))
    world.changed(a_unit("a", 11))
    world.changed(a_unit("b", 12, team="x"))
    assert await world.seen(10, mine) == [("deleted", "a", "11"), ("added", "b", "12")]


@mutant("service/feed.py", "return version >= self._floor", "return True")
async def test_whoever_was_away_for_too_long_is_not_told_half_of_it() -> None:
    world = World(most=3)
    for number in range(11, 16):
        world.changed(a_unit(f"u{number}", number))
    assert len(await world.seen(12)) == 3
    for since in (11, 9):
        with pytest.raises(Expired):
            await world.seen(since)


@mutant("service/feed.py", "if place < self._first:", "if False:")
async def test_a_watcher_that_falls_behind_is_told_so_and_keeps_nothing_in_memory() -> None:
    world = World(most=3)
    async with watching(world, 10) as following:
        world.changed(a_unit("a", 11))
        assert await following() == [("added", "a", "11")]
        for number in range(12, 20):
            world.changed(a_unit("a", number))
        with pytest.raises(Expired):
            await following()


async def test_what_a_new_list_differed_in_can_be_resumed_only_from_its_end() -> None:
    world = World(a_unit("gone", 5), a_unit("same", 6), a_unit("late", 7))
    world.store.replace([a_unit("same", 6), a_unit("late", 14), a_unit("new", 12)], "20")
    seen = await world.seen(10)
    assert sorted(kind for kind, _, _ in seen) == ["added", "deleted", "modified"]
    assert [version for _, _, version in seen] == ["", "", "20"]
    assert await world.seen(20) == []


async def test_a_unit_made_again_under_its_name_is_deleted_and_added() -> None:
    world = World(a_unit("a", 5, uid="first"))
    world.store.replace([a_unit("a", 12, uid="second")], "20")
    assert [kind for kind, _, _ in await world.seen(10)] == ["deleted", "added"]


@mutant("service/feed.py", "if not self._floor or version < self._newest:", "if not self._floor:")
async def test_after_a_restore_from_backup_all_is_told_anew() -> None:
    world = World(a_unit("a", 5), version=50)
    async with watching(world, 50) as following:
        world.changed(a_unit("b", 51))
        assert await following() == [("added", "b", "51")]
        world.store.replace([a_unit("a", 5)], "7")
        with pytest.raises(Expired):
            await following()
    world.changed(a_unit("c", 8))
    assert await world.seen(7) == [("added", "c", "8")]


async def test_a_version_that_this_replica_has_not_seen_yet_is_waited_for() -> None:
    """Another replica, which is ahead of this one, told it."""
    world = World()
    async with watching(world, 12) as following:
        world.changed(a_unit("a", 11))
        world.changed(a_unit("b", 12))
        world.changed(a_unit("c", 13))
        assert await following() == [("added", "c", "13")]


async def test_silence_is_told_as_a_bookmark_that_is_worth_resuming_from() -> None:
    world = World()
    async with watching(world, 10, pause=0.001) as following:
        assert await following() == [("bookmark", "", "10")]
        world.store.saw("15")  # changes elsewhere
        while await following() != [("bookmark", "", "15")]:
            pass


async def test_every_watcher_of_many_is_woken_by_every_change() -> None:
    world = World()
    versions = range(11, 31)

    async def watch() -> list[str]:
        seen: list[str] = []
        async with watching(world, 10) as following:
            while len(seen) < len(versions):
                seen += [version for _, _, version in await following()]
        return seen

    watchers = [asyncio.create_task(watch()) for _ in range(3 * WAKE_GROUP_SIZE + 1)]
    for version in versions:
        world.changed(a_unit("a", version))
        await asyncio.sleep(0)  # some are woken, some wait already for the next
    for watcher in watchers:
        assert await watcher == [str(version) for version in versions]


@mutant(
    "service/feed.py",
    "continue  # a change during the yield did not wake this watcher: look again before waiting",
    "pass",
)
async def test_a_change_that_comes_while_a_watcher_is_busy_is_told_without_waiting_for_the_next() -> None:
    world = World()
    async with watching(world, 10) as following:
        world.changed(a_unit("a", 11))
        assert await following() == [("added", "a", "11")]
        world.changed(a_unit("a", 12))  # nobody waits
        assert await following() == [("modified", "a", "12")]


async def test_what_watchers_share_is_encoded_once() -> None:
    world = World()
    world.changed(a_unit("a", 11))

    async def first() -> Change:
        async with aclosing(world.feed.after(10, ALL, seconds=0, pause=1)) as batches:
            return (await anext(batches))[0]

    one, two = await first(), await first()
    assert one is two
    assert one.data is two.data


PHASES = ("", "Ready", "Failed")
STEPS = st.lists(
    st.tuples(st.sampled_from(["change", "delete", "relist", "look"]), st.integers(0, 3), st.integers(0, 2)),
    max_size=30,
)


@given(STEPS)
async def test_whoever_mirrors_the_events_has_the_filtered_list(steps: list[tuple[str, int, int]]) -> None:
    """For every filter, and however often the stream is cut and resumed from the last id."""
    filters = [ALL, *(Wanted(HERE, phase=phase) for phase in PHASES[1:]), Wanted(HERE, "u1")]
    world = World(a_unit("u0", 5, phase="Ready"))
    mirrors = [{unit.metadata.name for unit in world.store if matches(each, unit)} for each in filters]
    resumes = [10] * len(filters)
    for version, (what, number, phase) in enumerate(steps, 11):
        unit = a_unit(f"u{number}", version, phase=PHASES[phase], uid=f"u{number}-{version}" if phase == 2 else "")
        match what:
            case "change":
                world.changed(unit)
            case "delete":
                world.deleted(f"u{number}", version)
            case "relist":
                others = [each for each in world.store if each.metadata.name != unit.metadata.name]
                world.store.replace([*others[number:], unit], str(version))
        if what == "look":
            for index, wanted in enumerate(filters):
                for kind, name, told_version in await world.seen(resumes[index], wanted):
                    (mirrors[index].discard if kind == "deleted" else mirrors[index].add)(name)
                    resumes[index] = int(told_version or resumes[index])
                assert mirrors[index] == {unit.metadata.name for unit in world.store if matches(wanted, unit)}


def matches(wanted: Wanted, unit: GPUUnit) -> bool:
    return wanted.matches(unit, unit_view(unit, STOCK))


@mutant("service/feed.py", "if any(update.misses(version) for update in updates):", "if False:")
async def test_a_watcher_is_not_left_with_what_came_and_went_between_two_lists_of_the_cache() -> None:
    world = World(version=10)
    async with watching(world, 12) as following:  # it was told of units that the cache has not seen
        asked = asyncio.ensure_future(following())
        await asyncio.sleep(0)
        world.store.replace([], "15")
        with pytest.raises(Expired):
            await asked


async def test_a_watcher_that_comes_back_with_a_version_between_two_lists_of_the_cache_is_told_anew() -> None:
    ready = Wanted(HERE, phase="Ready")
    world = World(a_unit("a", 5, phase="Pending"), version=10)
    world.store.replace([a_unit("a", 14, phase="Failed")], "15")  # and Ready at version 12
    for version in (11, 14):
        with pytest.raises(Expired):
            await world.seen(version, ready)
    assert await world.seen(10) == [("modified", "a", "15")]
    assert await world.seen(15) == []
    assert await world.seen(16) == []
