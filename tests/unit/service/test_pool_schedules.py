"""One stock pool, asked for on two replicas and deleted meanwhile, in memory, under random schedules."""

from __future__ import annotations

from random import Random
from typing import Any

from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.controllers.stockpool.reconcile import StockPoolReconciler
from gpu_runtime.kube.errors import Conflict, NotFound, Unreachable
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import Missing
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockPool
from gpu_runtime.service.cluster import OPERATIONS, STOCK_POOLS
from unit.service.exploration.memory import Process, Turn
from unit.service.exploration.scene import PLATFORM
from unit.service.exploration.seeding import SeedingScene

SEEDS = 1_500
SENT: dict[str, Any] = {
    "operationID": "pool",
    "name": "pool",
    "specName": "g1",
    "replicas": 0,
    "namespace": PLATFORM.instance_namespace,
}


class PoolScene(SeedingScene):
    """Two executors of one request, sweepers, the controller, and an operator who deletes the pool."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng, batches=0)
        self.removed = False

    async def ask(self) -> None:
        await self._replica()[0].pools.create(parse(CreateStockPool, SENT), SENT)

    async def delete(self) -> None:
        for _ in range(20):
            await Turn("wait for a pool")
            there = {pool.metadata.uid for pool in self.memory.of_kind(STOCK_POOLS)}
            if there:
                break
        try:
            await self._replica()[0].pools.delete(PLATFORM.instance_namespace, "pool")
        except (Missing, Unreachable, Conflict):
            return
        self.removed = True

    async def reconcile(self) -> None:
        unfinished = Store[Operation]()
        records = OperationRecords(self.memory, unfinished)  # type: ignore[arg-type]
        unfinished.replace(self._unfinished(), "1")
        nothing: Any = None
        controller = StockPoolReconciler(nothing, nothing, nothing, records, nothing, nothing)
        for pool in self.memory.of_kind(STOCK_POOLS):
            if await controller._superseded(pool):
                try:
                    await self.memory.delete(STOCK_POOLS, pool.metadata.key, uid=pool.metadata.uid)
                except (Conflict, NotFound):
                    continue

    def check(self) -> None:
        self.memory.loses = lambda: False
        for _ in range(3):
            self.run("sweeper", self.sweeper)
            self.run("controller", self.reconcile)
        pools = [pool.metadata.uid for pool in self.memory.of_kind(STOCK_POOLS)]
        if self.removed and pools:
            raise self.violation("a pool that was deleted is there again")
        for record in self.memory.of_kind(OPERATIONS):
            if pools and [record.status.objects[0].uid] != pools:
                raise self.violation("a pool that the record does not list")


def play(seed: int) -> bool:
    """Whether the operator's DELETE was answered 204 in this schedule."""
    rng = Random(seed)
    scene = PoolScene(rng)
    if seed % 2:
        scene.memory.loses = lambda: rng.random() < 0.05
    alive = [
        Process("A", scene.ask),
        Process("B", scene.ask),
        Process("S1", scene.sweeper),
        Process("S2", scene.sweeper),
        Process("R", scene.reconcile),
        Process("O", scene.delete),
    ]
    while alive:
        process = rng.choice(alive)
        scene.step(process)
        if process.done or rng.random() < 0.015:
            alive.remove(process)
    scene.check()
    return scene.removed


@mutant("service/stock/pools.py", "        await self._executor.settle(pool)\n", "")
def test_a_pool_that_was_deleted_with_204_never_comes_back() -> None:
    with capture_logs():
        deleted = sum(play(seed) for seed in range(SEEDS))
    assert deleted > SEEDS // 5
