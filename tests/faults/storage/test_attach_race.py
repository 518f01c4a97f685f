"""Two replicas give one storage to one of two units: exactly one gets it, and the loser leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from random import Random

import pytest

from equipment.fault_proxy import FaultProxy, writes
from equipment.judge import Witness, conservation, data_kept, list_objects, one_writer, orphans, timeline
from equipment.waiting import eventually
from faults.storage.processes import controllers
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import CLAIMED_BY
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.service.cluster import GPU_STORAGES, GPU_UNITS
from kube.http.api import Answer, Api, Places, unit_request

SEEDS = 100
AT_ONCE = 10
BUILT_IN = (
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/api/v1/namespaces/{}/pods",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/apps/v1/namespaces/{}/replicasets",
)


class Race:
    """Two requests for one storage on two replicas: each creates a unit that mounts it, or gives it to one by PUT."""

    def __init__(self, seed: int, world: Places, apis: list[Api]) -> None:
        self.world, self.apis, self.rng = world, apis, Random(seed)
        self.storage = f"data-{seed}"
        self.units = [f"one-{seed}", f"two-{seed}"]
        self.mounts = [{"name": self.storage, "mountPath": "/data"}]
        self.ways = [self.rng.choice(["create", "put"]) for _ in self.units]

    async def prepare(self) -> None:
        metadata = {"namespace": self.world.instance, "name": self.storage}
        await self.world.client.create(GPU_STORAGES, {"metadata": metadata, "spec": {"size": "1Gi"}})
        for name, way in zip(self.units, self.ways, strict=True):
            if way == "put":
                spec = {"specName": "g1.1", "image": "image:1", "memory": "1Gi"}
                metadata = {"namespace": self.world.instance, "name": name}
                await self.world.client.create(GPU_UNITS, {"metadata": metadata, "spec": spec})

    async def run(self) -> str:
        """Who won and how; fails unless the server says the same."""
        answers = await asyncio.gather(*(self._ask(each) for each in range(2)))
        told = sorted((answer.status, way) for answer, way in zip(answers, self.ways, strict=True))
        winners = [name for name, answer in zip(self.units, answers, strict=True) if answer.status in (200, 201)]
        losers = [answer for answer in answers if answer.status not in (200, 201)]
        assert len(winners) == 1, f"{self.storage}: {answers}"
        assert (losers[0].status, losers[0].code) == (409, "storage_in_use"), losers[0]
        assert f"in use by unit {winners[0]}" in losers[0].message, losers[0]
        record = attachment_of((await self.world.client.get(GPU_STORAGES, self._key(self.storage))).metadata)
        assert record is not None
        assert record.unit == winners[0]
        return f"{told[0][1]} before {told[1][1]}"

    async def end(self) -> None:
        """The winner runs with the storage; the loser does not exist, or mounts nothing."""
        record = attachment_of((await self.world.client.get(GPU_STORAGES, self._key(self.storage))).metadata)
        assert record is not None

        async def winner_runs() -> bool:
            return (await self.world.client.get(GPU_UNITS, self._key(record.unit))).status.phase == "Ready"

        await eventually(winner_runs, what=f"unit {record.unit} runs")
        mounting = [unit for unit in await self.world.units(self.world.instance) if unit.metadata.name in self.units]
        assert [unit.metadata.name for unit in mounting if unit.spec.storageMounts] == [record.unit]
        loser = next(name for name in self.units if name != record.unit)
        there = [unit.metadata.name for unit in mounting]
        assert (loser in there) == (self.ways[self.units.index(loser)] == "put")

    async def _ask(self, number: int) -> Answer:
        name, api = self.units[number], self.apis[number]
        if self.ways[number] == "put":
            return await api.put(f"/gpu-units/{name}", {"storageMounts": self.mounts})
        return await api.post("/gpu-units", unit_request(name, name, storageMounts=self.mounts))

    def _key(self, name: str) -> Key:
        return Key(self.world.instance, name)


async def test_of_two_requests_for_one_storage_on_two_replicas_one_wins_and_the_other_leaves_nothing(
    world: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    ends: Counter[str] = Counter()
    paths = [*world.paths, *(path.format(world.instance) for path in BUILT_IN)]
    async with (
        FaultProxy(world.server, name="one") as one,
        FaultProxy(world.server, name="two") as two,
        world.api(one.server) as first,
        world.api(two.server) as second,
        Witness(world.server, paths) as witness,
    ):
        # Each write takes a while, another one each time, so that the two meet at every step of each other.
        for number, proxy in enumerate((one, two)):
            for step, seconds in enumerate((0.01, 0.03, 0.09)):
                proxy.on(writes("gpustorages") | writes("operations"), chance=0.3, seed=7 * number + step).delay(
                    seconds
                )
        async with controllers(world, world.server):
            for begin in range(0, SEEDS, AT_ONCE):
                races = [Race(seed, world, [first, second]) for seed in range(begin, begin + AT_ONCE)]
                await seeded(world, first, begin, sum(race.ways.count("create") for race in races))
                await world.known(second)
                await asyncio.gather(*(race.prepare() for race in races))
                ends.update(await asyncio.gather(*(race.run() for race in races)))
                await asyncio.gather(*(race.end() for race in races))
                await stock_is_free(world)
        after = await list_objects(world.server, *paths)
        await witness.caught_up(str(max(int(each["metadata"]["resourceVersion"]) for each in after)))
    seen = timeline(before=witness.before, events=witness.events, after=after)
    assert one_writer(seen) == []
    assert data_kept(seen) == []
    assert conservation(seen, stock_namespace=world.stock) == []
    assert orphans(after, stock_namespace=world.stock) == []
    with capsys.disabled():
        sys.stdout.write(
            f"\n{sum(ends.values())} races for a storage: {dict(ends)}, {len(witness.events)} writes judged\n"
        )
    assert sum(ends.values()) == SEEDS
    assert len(ends) == 4, "each way won and lost against each"


async def seeded(world: Places, api: Api, turn: int, wanted: int) -> None:
    """Stock for every request of the next races."""
    free = len(await world.units(world.stock))
    body = {"operationID": f"stock-{turn}", "specName": "g1.1", "memory": "1Gi", "gpu": 1}
    assert (await api.post("/operator/stock-units", {**body, "replicas": max(1, wanted - free)})).status in (200, 202)

    async def ready() -> bool:
        stock = await world.units(world.stock)
        return len(stock) >= wanted and all(unit.status.phase == "Ready" for unit in stock)

    await eventually(ready, what="the stock is ready")
    await world.known(api)


async def stock_is_free(world: Places) -> None:
    """The stock of the losers can be had again, and that of the winners is consumed."""

    async def none_claimed() -> bool:
        stock = await world.units(world.stock)
        assert [unit.metadata.name for unit in stock if CLAIMED_BY in unit.metadata.annotations] == []
        return True

    await eventually(none_claimed, what="no stock is claimed")
