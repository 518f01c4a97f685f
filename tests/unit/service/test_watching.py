"""What many long watches cost: no watch holds its first list, and they do not all list again at once."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.decoding import Listing
from gpu_runtime.kube.store import Store
from gpu_runtime.service.cluster import GPU_UNITS
from gpu_runtime.service.feed import Change, Wanted
from gpu_runtime.service.views import unit_view
from gpu_runtime.service.watching import RELIST_SECONDS, Watching
from unit.service.replica import PLATFORM, a_users_unit

ALL = Wanted(PLATFORM.instance_namespace)
Watch = AsyncGenerator[list[Change], None]


class Lists:
    """A server whose every list has one unit, at the version that the test sets."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.given: list[weakref.ref[Listing[GPUUnit]]] = []

    async def list(self, query: Query[GPUUnit]) -> Listing[GPUUnit]:
        listing = Listing([a_users_unit()], [], str(self.version))
        self.given.append(weakref.ref(listing))
        return listing


class Impatient(Random):
    """Remembers between which numbers it should choose, and chooses 0."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.asked.append((a, b))
        return 0.0


class World:
    """A cache at version 10, watches of its units, and a server that is further."""

    def __init__(self) -> None:
        self.server, self.rng, self.cache = Lists(version=15), Impatient(), Store[GPUUnit]()
        server: Any = self.server
        view = partial(unit_view, stock_namespace=PLATFORM.stock_namespace)
        self.watching = Watching(server, GPU_UNITS, self.cache, view, rng=self.rng)
        self.cache.replace([], "10")

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Watch, None]:
        async with asyncio.timeout(50), aclosing(self.watching.changes(ALL, seconds=60, pause=60)) as changes:
            yield changes


@mutant("service/watching.py", "                del objects  # a watch", "                # a watch")
async def test_a_watch_that_waits_holds_nothing_of_its_first_list() -> None:
    world = World()
    async with world.watch() as changes:
        first = await anext(changes)
        assert [change.kind for change in first] == ["added", "bookmark"]
        told, listing = weakref.ref(first[0]), world.server.given[0]
        del first
        following = asyncio.ensure_future(anext(changes))
        await eventually(lambda: told() is None and listing() is None, what="the list is released")
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@mutant("service/watching.py", "self._rng.uniform(*RELIST_SECONDS)", "RELIST_SECONDS[0]")
async def test_watches_that_one_gap_interrupts_list_again_each_at_a_time_of_its_own() -> None:
    world = World()
    async with world.watch() as one, world.watch() as other:
        for changes in (one, other):
            await anext(changes)
        world.cache.replace([], "20")  # what happened at 15 may be missing in between
        world.server.version = 20
        for changes in (one, other):
            assert [change.kind for change in await anext(changes)] == ["reset"]
            assert (await anext(changes))[-1].version == "20"
    assert world.rng.asked == [RELIST_SECONDS, RELIST_SECONDS]
    assert RELIST_SECONDS[0] < RELIST_SECONDS[1]
