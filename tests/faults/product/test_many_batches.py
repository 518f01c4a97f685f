"""Two replicas seed many batches on a real server, with consumption, restarts and lost answers in between: ten runs.

A run here has 10 batches of 20. The 50 batches of 20 are played in memory (tests/faults/service/test_many_batches.py):
on two cores ten such runs on a server would take more than five minutes.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import aiohttp
import pytest

from equipment.fault_proxy import FaultProxy, creates, writes
from equipment.judge import conservation, count_stock, made_once, unlisted
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.controllers.gpuunit.admission import Remove
from gpu_runtime.controllers.gpuunit.stock_gate import Listed, is_gated, listing
from gpu_runtime.kube import Client, Query, load_config
from gpu_runtime.kube.errors import ApiError
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from kube.http.api import Answer, Api, Places, places, unit_request

RUNS, BATCHES, SIZE = 10, 10, 20
LOST = 0.02  # share of a replica's writes whose answer is lost
HELD = 0.1  # share of the first replica's creations of units that are delayed until some stock is consumed
RESTARTS = 2
CONSUMED = 40
STOCK = "/operator/stock-units"


class Replica:
    """One API behind a proxy of its own, killed and started again."""

    def __init__(self, world: Places, proxy: FaultProxy) -> None:
        self.world, self.proxy = world, proxy
        self.api: Api | None = None
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        self.api = await self._stack.enter_async_context(self.world.api(self.proxy.server))

    async def stop(self) -> None:
        api, self.api = self.api, None
        if api is not None:
            api.kill()
        await self._stack.aclose()

    async def post(self, path: str, body: Any) -> Answer | None:
        """The answer; None when the replica is away or dies meanwhile."""
        if self.api is None:
            return None
        try:
            return await self.api.post(path, body)
        except (aiohttp.ClientError, RuntimeError, OSError):
            return None


class Run:
    """One run in namespaces of its own."""

    def __init__(self, seed: int, world: Places, replicas: list[Replica]) -> None:
        self.world, self.replicas, self.rng = world, replicas, Random(seed)
        new = creates("gpuunits").in_namespace(world.stock)
        self.held = replicas[0].proxy.on(new, chance=HELD, seed=seed).hold()
        self.consumed = 0
        self.sizes = {f"b{number}": SIZE for number in range(BATCHES)}
        self.over = asyncio.Event()

    async def play(self) -> None:
        for replica in self.replicas:
            await replica.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.controller())
                group.create_task(self.consumer())
                await self.clients()
                for replica in self.replicas:
                    replica.proxy.remove_faults()
                await self.finish()
                self.over.set()
        finally:
            for replica in self.replicas:
                await replica.stop()

    async def clients(self) -> None:
        """Every batch is asked for on both replicas; now and then one of them dies and comes back."""
        restarts = set(self.rng.sample(range(BATCHES), RESTARTS))
        for number, batch in enumerate(self.sizes):
            asked = [asyncio.create_task(replica.post(STOCK, self.request(batch))) for replica in self.replicas]
            if number in restarts:
                unlucky = self.rng.choice(self.replicas)
                await unlucky.stop()
                await unlucky.start()
            await asyncio.wait(asked)
            if number % 3 == 2:
                enough = CONSUMED * number // BATCHES
                await eventually(lambda: self.consumed >= enough, what=f"{enough} units are consumed")  # noqa: B023
                self.held.let_go()
            for replica in self.replicas:
                if replica.api is not None and self.rng.random() < 0.2:
                    await replica.api.services.sweeper.sweep()

    async def finish(self) -> None:
        """All batches succeed, the hand-overs under way end, and nothing is left that no record lists."""
        first = self.replicas[0]

        async def done(batch: str) -> bool:
            answer = await first.post(STOCK, self.request(batch))
            return answer is not None and answer.status == 200 and answer.data["status"] == "succeeded"

        for batch in self.sizes:
            await eventually(lambda batch=batch: done(batch), what=f"batch {batch} succeeds")  # type: ignore[misc]
        for replica in self.replicas:
            if replica.api is not None:
                await replica.api.services.sweeper.sweep()

        async def settled() -> bool:
            await self.pass_of_controller()
            records = (await self.world.client.list(Query(OPERATIONS, self.world.system))).items
            listed = {uid for record in records for uid in record.status.units}
            return all(unit.metadata.uid in listed for unit in await self.world.units(self.world.stock))

        await eventually(settled, what="only listed units are left")

    async def controller(self) -> None:
        """Stands in for the controller, with its real decision function; every pod runs at once."""
        while not self.over.is_set():
            await self.pass_of_controller()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), 0.5)

    async def pass_of_controller(self) -> None:
        client, ready = self.world.client, asyncio.Semaphore(8)
        units = await self.world.units(self.world.stock)
        records = {each.metadata.uid: each for each in (await client.list(Query(OPERATIONS, self.world.system))).items}

        async def judge(unit: Any) -> None:
            meta = unit.metadata
            record = records.get(meta.annotations["runtime.lokiwager.io/operation-uid"])
            async with ready:
                with suppress(ApiError):
                    match listing(unit, record):
                        case Listed():
                            status = {"phase": "Ready", "observedGeneration": 1, "nodeName": "fake-0", "listed": True}
                            patch = {"metadata": {"uid": meta.uid}, "status": status}
                            await client.patch(GPU_UNITS, meta.key, patch, subresource="status")
                        case Remove():
                            await client.delete(GPU_UNITS, meta.key, uid=meta.uid)

        await asyncio.gather(*(judge(unit) for unit in units if is_gated(unit)))

    async def consumer(self) -> None:
        """Hands stock over while it is seeded."""
        while self.consumed < CONSUMED and not self.over.is_set():
            name = f"u{self.consumed}"
            answer = await self.rng.choice(self.replicas).post("/gpu-units", unit_request(name, name, specName="g1.1"))
            if answer is not None and answer.status in (200, 201):
                self.consumed += 1
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.over.wait(), 0.05)

    def request(self, batch: str) -> dict[str, Any]:
        return {"operationID": batch, "specName": "g1.1", "memory": "1Gi", "gpu": 1, "replicas": self.sizes[batch]}


async def test_ten_batches_on_two_replicas_make_every_number_once_in_ten_runs(
    installed: ApiServer, ready_node: None, capsys: pytest.CaptureFixture[str]
) -> None:
    consumed = late = lost = stood = 0
    async with (
        Client(load_config(installed.kubeconfig), user_agent="a person") as client,
        FaultProxy(installed, name="one") as one,
        FaultProxy(installed, name="two") as two,
    ):
        for seed in range(RUNS):
            with places(installed, client, "many") as world:
                faults = [
                    proxy.on(writes(), chance=LOST, seed=10 * seed + number).drop_response()
                    for number, proxy in enumerate((one, two))
                ]
                async with world.witnessed() as witness:
                    run = Run(seed, world, [Replica(world, one), Replica(world, two)])
                    await run.play()
                    seen = await world.seen(witness)
                assert made_once(seen, run.sizes, stock_namespace=world.stock) == []
                removed = unlisted(seen, stock_namespace=world.stock)
                assert conservation(seen, removed=removed, stock_namespace=world.stock) == []
                counted = count_stock(seen, removed=removed, stock_namespace=world.stock).handed_over
                assert counted
                consumed, late = consumed + counted, late + len(removed)
                stood += len(run.held.hits)
                lost += sum(len(fault.hits) for fault in faults)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{RUNS} runs of {BATCHES} batches of {SIZE} on two replicas: {consumed} units handed over meanwhile, "
            f"{RUNS * RESTARTS} restarts, {lost} answers lost, {stood} creations stood still, "
            f"{late} units made too late and removed\n"
        )
