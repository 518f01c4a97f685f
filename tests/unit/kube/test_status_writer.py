"""A status is written when it differs, and conditions of other writers stay."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from equipment.builders.base import Builder, new_document
from equipment.clock import FakeClock
from equipment.memory_api import MemoryApi
from equipment.mutation import mutant
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Conflict, OwnWrites, Resource, StatusWriter, Store
from gpu_runtime.kube.status_writer import merge_conditions

CLOCK = FakeClock()
NOW = CLOCK.now()
EARLIER = NOW - timedelta(hours=1)


class ToyStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    seen: datetime | None = None
    conditions: list[Condition] = []


class Toy(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    status: ToyStatus = ToyStatus()


TOYS = Resource("example.org", "v1", "Toy", "toys", Toy)
KEY = Key("ns", "t")
READY = replace(Condition.true("Ready", "Fine", "all is well"), lastTransitionTime=EARLIER)
SYNCED = replace(Condition.false("Synced", "Behind"), lastTransitionTime=EARLIER)
THEIRS = replace(Condition.true("Theirs", "Ok"), lastTransitionTime=EARLIER)

MERGED: dict[str, tuple[list[Condition], list[Condition], list[Condition]]] = {
    "the first condition": ([], [READY], [replace(READY, lastTransitionTime=NOW)]),
    "two conditions": (
        [],
        [READY, SYNCED],
        [replace(READY, lastTransitionTime=NOW), replace(SYNCED, lastTransitionTime=NOW)],
    ),
    "nothing new": ([READY, SYNCED], [SYNCED, READY], [READY, SYNCED]),
    "a condition of another writer stays where it is": ([THEIRS, READY], [READY], [THEIRS, READY]),
    "a new reason moves no time": (
        [READY],
        [replace(READY, reason="Better")],
        [replace(READY, reason="Better")],
    ),
    "a new status moves the time of its condition alone": (
        [READY, SYNCED],
        [READY, replace(SYNCED, status="True")],
        [READY, replace(SYNCED, status="True", lastTransitionTime=NOW)],
    ),
    "an owned condition that is left out is removed": ([READY, THEIRS, SYNCED], [READY], [READY, THEIRS]),
    "no conditions": ([READY, THEIRS], [], [THEIRS]),
}


@pytest.mark.parametrize(("before", "given", "want"), MERGED.values(), ids=MERGED)
@mutant("kube/status_writer.py", "condition.type in given or condition.type not in owns", "False")
@mutant("kube/status_writer.py", "condition.type in given or condition.type not in owns", "True")
def test_conditions_are_merged(before: list[Condition], given: list[Condition], want: list[Condition]) -> None:
    unset = [replace(condition, lastTransitionTime=None) for condition in given]
    assert merge_conditions(before, unset, ("Ready", "Synced"), NOW) == want


def test_a_condition_that_the_writer_does_not_own_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="Theirs"):
        merge_conditions([], [THEIRS], ("Ready",), NOW)


def a_toy(*conditions: Condition, phase: str = "Up") -> Builder:
    toy = Builder(new_document("example.org/v1", "Toy", "t", "ns"))
    status = ToyStatus(phase=phase, seen=EARLIER, conditions=list(conditions))
    return toy.having(status=msgspec.to_builtins(status))


class World:
    """One toy on an API in memory, and its writer."""

    def __init__(self, toy: Builder) -> None:
        self.api = MemoryApi(CLOCK)
        self.api.put(toy)
        client: Any = self.api
        self.writer = StatusWriter(TOYS, OwnWrites(Store[Toy]()), client, ("Ready",), time_field="seen", clock=CLOCK)

    async def toy(self) -> Toy:
        return await self.api.get(TOYS, KEY)


async def test_a_status_that_says_the_same_is_not_written() -> None:
    world = World(a_toy(READY, THEIRS))
    toy = await world.toy()
    assert not await world.writer.write(toy, replace(toy.status, seen=None), [READY])
    assert world.api.writes == []


@mutant("kube/status_writer.py", "        self.cache.wrote(written)\n", "")
async def test_a_status_that_differs_is_written_with_its_time_and_known_at_once() -> None:
    world = World(a_toy(READY, THEIRS))
    toy = await world.toy()
    assert await world.writer.write(toy, replace(toy.status, phase="Down"), [Condition.false("Ready", "Broken")])
    broken = replace(Condition.false("Ready", "Broken"), lastTransitionTime=NOW)
    written = await world.toy()
    assert written.status == ToyStatus(phase="Down", seen=NOW, conditions=[broken, THEIRS])
    assert world.writer.cache.get(KEY) == written


async def test_a_status_that_was_decided_on_an_older_version_is_a_conflict() -> None:
    world = World(a_toy(READY))
    old = await world.toy()
    await world.writer.write(old, replace(old.status, phase="Down"), [READY])
    with pytest.raises(Conflict):
        await world.writer.write(old, replace(old.status, phase="Sideways"), [READY])


async def test_an_object_that_is_gone_needs_no_status() -> None:
    world = World(a_toy())
    toy = await world.toy()
    await world.api.delete(TOYS, KEY)
    assert not await world.writer.write(toy, toy.status, [READY])
