"""Random sequences around storages, with crashes and lost answers: no data is lost, and no volume has two writers.

`--soak-rounds=N` runs N rounds of 10 sequences each (30 rounds are 300 sequences), `--soak-seed=N` other ones.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.judge import (
    Timeline,
    Witness,
    conservation,
    data_kept,
    list_objects,
    mounted,
    one_writer,
    orphans,
    timeline,
)
from equipment.soak import Soak
from equipment.waiting import eventually
from faults.storage.processes import Controllers, Process, Replica
from faults.storage.sequence import Sequence
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, CLAIMED_BY
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.service.cluster import GPU_STORAGES, GPU_UNITS
from kube.http.api import Places
from local.crash_points.test_prepare import pods_end

ROUNDS = 3
SEQUENCES = 10
"""At once in a round. All of them meet the same crashes."""
STOCK = 20
BUILT_IN = (
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/api/v1/namespaces/{}/pods",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/apps/v1/namespaces/{}/replicasets",
    "/apis/batch/v1/namespaces/{}/jobs",
)
Document = dict[str, Any]


class Cluster:
    """All processes of the product, and everything that is in their namespaces."""

    def __init__(self, world: Places, replicas: list[Replica], controllers: Controllers) -> None:
        self.world, self.replicas, self.controllers = world, replicas, controllers
        self.paths = [*world.paths, *(path.format(world.instance) for path in BUILT_IN)]
        self.hit = 0

    @property
    def processes(self) -> list[Process]:
        return [*self.replicas, self.controllers]

    async def play(self, sequences: list[Sequence]) -> None:
        """The sequences at once, among crashes and lost answers."""
        over = asyncio.Event()
        for process in self.processes:
            process.disturb()
        async with asyncio.TaskGroup() as group:
            for process in self.processes:
                group.create_task(process.die_again_and_again(over))
            late = group.create_task(self._let_late_writes_go(over))
            try:
                await asyncio.gather(*(sequence.play() for sequence in sequences))
            finally:
                over.set()
                await late
        self.hit += sum(process.leave_alone() for process in self.processes)

    async def _let_late_writes_go(self, over: asyncio.Event) -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 1.0)
            for process in self.processes:
                process.let_late_writes_go()

    async def listing(self) -> list[Document]:
        return await list_objects(self.world.server, *self.paths)

    async def rests(self) -> list[Document]:
        """Everything there is, once nothing changes any more and nothing is left undone."""
        last: list[Document] = []

        async def at_rest() -> list[Document]:
            nonlocal last
            for replica in self.replicas:
                assert replica.api is not None
                await replica.api.services.sweeper.sweep()
            before, last = last, await self.listing()
            assert undone(last, self.world) == []
            assert orphans(last, stock_namespace=self.world.stock) == []
            assert changed(before, last) == [], "something was written a moment ago"
            return last

        return await eventually(at_rest, within=180, what="everything is at rest")

    async def delete_all(self) -> None:
        """Deletes storages first: they must wait for the units that hold them, and for nothing else."""
        everything = await self.listing()
        kinds: tuple[Resource[Any], ...] = (GPU_STORAGES, GPU_UNITS)
        for resource in kinds:
            for each in everything:
                meta = each["metadata"]
                if each["kind"] == resource.kind and meta["namespace"] == self.world.instance:
                    with suppress(NotFound):
                        await self.world.client.delete(resource, Key(meta["namespace"], meta["name"]))

        async def all_gone() -> bool:
            left = [each for each in await self.listing() if each["metadata"]["namespace"] == self.world.instance]
            assert left == [], [f"{each['kind']} {each['metadata']['name']}" for each in left]
            return True

        await eventually(all_gone, within=180, what="all that was deleted is gone")


def changed(before: list[Document], after: list[Document]) -> list[Document]:
    known = {(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in before}
    return [each for each in after if (each["metadata"]["uid"], each["metadata"]["resourceVersion"]) not in known]


def undone(listed: list[Document], world: Places) -> list[str]:
    """What should not be so once all is quiet: a deletion that hangs, a record or a claim that nobody needs."""
    return [problem for each in listed for problem in _undone(each, listed, world)]


def _undone(document: Document, listed: list[Document], world: Places) -> list[str]:
    kind, meta, status = document["kind"], document["metadata"], document.get("status") or {}
    notes = meta.get("annotations") or {}
    if "deletionTimestamp" in meta and not _may_wait(document, listed):
        return [f"{kind} {meta['name']} is being deleted: {status}"]
    match kind:
        case "Operation" if status.get("phase", "Pending") in ("Pending", "Running"):
            return [f"operation {meta['name']} is {status.get('phase')}"]
        case "GPUUnit" if meta["namespace"] == world.stock:
            return [f"stock {meta['name']} is still claimed"] if CLAIMED_BY in notes else []
        case "GPUUnit":
            waits = status.get("phase") != "Ready" or status.get("observedGeneration") != meta["generation"]
            return [f"unit {meta['name']} waits: {status}"] if waits and not _lacks_storage(document, listed) else []
        case "GPUStorage":
            holder = _holder(document, listed)
            # A unit that was given another storage, and waits for that one, goes on with its pod as it is.
            keeps = holder and (meta["name"] in _mounts(holder) or _lacks_storage(holder, listed))
            if ATTACHED_TO in notes and not keeps:
                return [f"storage {meta['name']} is held for nothing: {notes[ATTACHED_TO]}, {holder}"]
            if status.get("observedGeneration") != meta["generation"]:
                return [f"storage {meta['name']} waits: {status}"]
    return []


def _may_wait(document: Document, listed: list[Document]) -> bool:
    """A storage waits for its holder; a claim that was deleted by hand, for its storage."""
    meta = document["metadata"]
    if document["kind"] == "PersistentVolumeClaim":
        return any(each["kind"] == "GPUStorage" and each["metadata"]["name"] == meta["name"] for each in listed)
    return document["kind"] == "GPUStorage" and _holder(document, listed) is not None


def _lacks_storage(unit: Document, listed: list[Document]) -> bool:
    """Whether one of its storages is missing, not mountable, being deleted, or somebody else's."""
    storages = {each["metadata"]["name"]: each for each in listed if each["kind"] == "GPUStorage"}
    return any(_cannot_have(unit, storages.get(name), listed) for name in _mounts(unit))


def _cannot_have(unit: Document, storage: Document | None, listed: list[Document]) -> bool:
    if storage is None or not storage.get("status", {}).get("mountable"):
        return True
    holder = _holder(storage, listed)
    return holder is not unit and (holder is not None or "deletionTimestamp" in storage["metadata"])


def _holder(storage: Document, listed: list[Document]) -> Document | None:
    """The unit whose name the record has; `orphans` judges whether it is that very unit."""
    record = json.loads(storage["metadata"].get("annotations", {}).get(ATTACHED_TO, "{}"))
    units = [each for each in listed if each["kind"] == "GPUUnit" and each["metadata"]["name"] == record.get("unit")]
    return units[0] if units else None


def _mounts(unit: Document) -> set[str]:
    return {mount["name"] for mount in unit["spec"].get("storageMounts") or []}


@asynccontextmanager
async def running(world: Places, soak: Soak) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(FaultProxy(world.server, name=name)) for name in ("one", "two", "three")
        ]
        purposes = [soak.random("crashes of", proxy.name) for proxy in proxies]
        replicas = [Replica(world, proxy, rng) for proxy, rng in zip(proxies[:2], purposes, strict=False)]
        cluster = Cluster(world, replicas, Controllers(world, proxies[2], purposes[2]))
        for process in cluster.processes:
            await process.start()
            stack.push_async_callback(process.stop)
        await stack.enter_async_context(pods_end(world))
        yield cluster


async def seeded(cluster: Cluster, turn: int) -> None:
    """Enough stock for this round."""
    api = cluster.replicas[0].api
    assert api is not None
    free = [
        unit
        for unit in await cluster.world.units(cluster.world.stock)
        if CLAIMED_BY not in unit.metadata.annotations and unit.status.phase == "Ready"
    ]
    body = {"operationID": f"stock-{turn}", "specName": "g1.1", "memory": "1Gi", "gpu": 1}
    answer = await api.post("/operator/stock-units", {**body, "replicas": max(1, STOCK - len(free))})
    assert answer.status in (200, 202), answer

    async def all_ready() -> bool:
        stock = await cluster.world.units(cluster.world.stock)
        return len(stock) >= STOCK and all(unit.status.phase == "Ready" for unit in stock)

    await eventually(all_ready, what="the stock is ready")


async def seen(cluster: Cluster, witness: Witness) -> Timeline:
    after = await cluster.listing()
    await witness.caught_up(str(max(int(each["metadata"]["resourceVersion"]) for each in after)))
    return timeline(before=witness.before, events=witness.events, after=after)


def consumed(everything: Timeline) -> list[str]:
    """UIDs of stock that operations consumed, by their records: a unit may be deleted before it names its stock."""
    records = [life.last.get("status") or {} for life in everything.of_kind("Operation")]
    choices = [(record.get("decisions") or {}).get("stock") for record in records if record.get("phase") == "Succeeded"]
    return [choice["uid"] for choice in choices if choice]


@pytest.mark.timeout(3600)  # for many rounds
async def test_no_sequence_of_requests_and_crashes_loses_data_or_gives_a_volume_two_writers(
    world: Places, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Counter[str] = Counter()
    claims_deleted: set[str] = set()
    rounds = soak.rounds(ROUNDS)
    async with running(world, soak) as cluster, Witness(world.server, cluster.paths) as witness:
        for turn in range(rounds):
            await seeded(cluster, turn)
            sequences = [
                Sequence(number, f"{soak.seed} {number}", world, cluster.replicas)
                for number in range(turn * SEQUENCES, (turn + 1) * SEQUENCES)
            ]
            await cluster.play(sequences)
            await cluster.rests()
            await cluster.delete_all()
            for sequence in sequences:
                claims_deleted |= sequence.claims_deleted
                answers.update(each.rpartition(": ")[2] for each in sequence.done)
        await cluster.rests()
        everything = await seen(cluster, witness)
        crashes = [process.crashes for process in cluster.processes]
    where = f"seed {soak.seed}, {rounds} rounds"
    assert data_kept(everything, by_hand=claims_deleted) == [], where
    assert one_writer(everything) == [], where
    taken = consumed(everything)
    assert len(taken) == len(set(taken)), f"two operations consumed one stock unit: {taken}, {where}"
    assert conservation(everything, removed=taken, stock_namespace=world.stock) == [], where
    with capsys.disabled():
        sys.stdout.write(
            f"\n{rounds * SEQUENCES} sequences, {sum(answers.values())} requests {dict(answers.most_common())}: "
            f"{sum(crashes)} crashes (replicas {crashes[0]} and {crashes[1]}, controllers {crashes[2]}), "
            f"{cluster.hit} writes lost, unanswered or late, {len(mounted(everything))} units with a mounted claim, "
            f"{len(taken)} stock units consumed, {len(witness.events)} writes judged ({where})\n"
        )
    assert sum(crashes) >= rounds
    assert mounted(everything)
