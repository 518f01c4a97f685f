"""Seeding in memory: executors, sweepers, the controller's gate, consumers and an operator. Only consumers are fake."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from msgspec import structs

from equipment.builders import a_deployment
from equipment.clock import FakeClock
from equipment.judge import made_once
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import UNFINISHED
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.child_kinds.workloads import Deployment
from gpu_runtime.controllers.gpuunit.admitter import Settled
from gpu_runtime.controllers.gpuunit.readiness import Observed, readiness, status
from gpu_runtime.controllers.gpuunit.stock_gate import StockGate
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.controllers.readiness import Blocked
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.errors import Conflict, KubeError, NotFound, Unreachable
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.operations.sweeper import Sweeper
from gpu_runtime.service.reading import Namespaces
from gpu_runtime.service.stock.batch_executor import BY_OPERATION, by_operation
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.stock.seeding import Seeding, Work
from gpu_runtime.service.stock.seeding_queue import SeedingQueue
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver
from unit.service.executors import Executors
from unit.service.exploration.memory import Process, Turn
from unit.service.exploration.recorded import Recorded
from unit.service.exploration.scene import PLATFORM, Impatient, Violation

R = TypeVar("R")
Caches = tuple[Store[Operation], Store[GPUUnit], Store[StockPool], Namespaces, StockPicker]
STOCK = PLATFORM.stock_namespace
MOST_TRIES = 20
MOST_PASSES = 12
PATIENCE = 12
RUNNING = Workload(
    a_deployment("d", STOCK)
    .replicas(1)
    .status(observedGeneration=1, replicas=1, updatedReplicas=1, availableReplicas=1)
    .into(Deployment)
)


async def one_by_one(works: Sequence[Work[R]]) -> list[R]:
    return [await work() for work in works]


@dataclass(frozen=True)
class Rules:
    """The code that is explored."""

    seeding: type[Seeding] = Seeding
    gate: type[StockGate] = StockGate


RULES = Rules()


class SeedingScene:
    """One play: batches b0, b1, ... of the same size and spec. `rules` may be broken ones."""

    def __init__(self, rng: Random, *, batches: int = 1, size: int = 2, rules: Rules = RULES) -> None:
        self.memory = Recorded()
        self.rng = rng
        self.clock = FakeClock()
        self.sizes = {f"b{number}": size for number in range(batches)}
        self.trace: list[str] = []
        self.consumed: set[str] = set()
        self.deleted: set[str] = set()
        self.sweep_seconds = 7200.0
        self.caches_last = 1  # replicas that begin with the same caches
        self._replicas = 0
        self.rules = rules
        for name in (PLATFORM.instance_namespace, STOCK, PLATFORM.system_namespace):
            self.memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))

    def step(self, process: Process) -> None:
        self.trace.append(process.step())
        if process.done and process.error is not None:
            self.trace.append(f"{process.name} ended with {process.error!r}")
            if not isinstance(process.error, KubeError | ServiceError):
                raise process.error

    def run(self, name: str, work: Any) -> None:
        process = Process(name, work)
        while not process.done:
            self.step(process)

    def end(self) -> None:
        """Clients have asked for all batches again and again; sweeper and controller come to rest; all is judged."""
        self.memory.loses = lambda: False
        self.memory.quota = None
        for batch in self.sizes:
            self.run("replay", self.executor(batch))
        for _ in range(MOST_PASSES):
            before = self.memory.version
            self.run("sweeper", self.sweeper)
            self.run("controller", self.controller)
            if before == self.memory.version:
                break
        else:
            raise self.violation("sweeper and controller never come to rest")
        if problems := made_once(self.memory.seen, self.sizes):
            raise self.violation("; ".join(problems))
        listed = [uid for record in self.memory.of_kind(OPERATIONS) for uid in record.status.units]
        living = {unit.metadata.uid for unit in self.memory.of_kind(GPU_UNITS)}
        if set(listed) - living != self.consumed | self.deleted:
            raise self.violation("units are listed, gone, and neither consumed nor deleted")

    def violation(self, what: str) -> Violation:
        return Violation("\n".join([what, *self.trace[-400:]]))

    # The processes.

    def executor(self, batch: str) -> Any:
        """A request for the batch on some replica, and all that its queue does about it."""

        async def run() -> None:
            size = self.sizes[batch]
            sent = {"operationID": batch, "specName": "g1", "memory": "1Gi", "gpu": 1, "replicas": size}
            replica, _ = self._replica()
            await replica.stock.seed(parse(CreateStockUnits, sent), sent)
            await self._work_off(replica.queue)

        return run

    async def sweeper(self) -> None:
        replica, sweeper = self._replica()
        self.clock.advance(self.sweep_seconds)
        await sweeper.sweep()
        await self._work_off(replica.queue)
        await sweeper.retire()

    async def controller(self) -> None:
        """One pass over what its caches know at its beginning; every pod runs at once."""
        self.clock.advance(5)
        unfinished = Store[Operation]()
        gate = self.rules.gate(self.memory, OperationRecords(self.memory, unfinished), self.clock)  # type: ignore[arg-type]
        unfinished.replace(self._unfinished(), "1")
        for unit in self.memory.of_kind(GPU_UNITS):
            if unit.status.phase == "Ready":
                continue
            await Turn(f"see {unit.metadata.name}")
            try:
                await gate.before(unit)
                seen = await gate.after(Observed(unit, workload=RUNNING))
                said = status(seen, readiness(seen))
                assert said.listed == seen.listed
                await self.memory.replace(GPU_UNITS, structs.replace(unit, status=said))
            except (Settled, Blocked, Conflict, NotFound):
                continue

    async def consumer(self) -> None:
        """Takes one Ready unit, as a hand-over does: by UID and version."""
        ready: list[GPUUnit] = []
        for _ in range(PATIENCE):
            await Turn("wait for Ready stock")
            ready = [unit for unit in self.memory.of_kind(GPU_UNITS) if unit.status.phase == "Ready"]
            if ready:
                break
        else:
            return
        meta = self.rng.choice(ready).metadata
        with suppress(Unreachable):  # deleted, but the answer was lost
            await self.memory.delete(GPU_UNITS, meta.key, uid=meta.uid, resource_version=meta.resourceVersion)
        self.consumed.add(meta.uid)

    async def operator(self) -> None:
        """Deletes some stock unit over the API."""
        units = self.memory.of_kind(GPU_UNITS)
        if not units:
            return
        meta = self.rng.choice(units).metadata
        before = {unit.metadata.uid for unit in units}
        try:
            await self._replica()[0].stock.delete(meta.name)
        finally:
            living = {unit.metadata.uid for unit in self.memory.of_kind(GPU_UNITS)}
            self.deleted |= (before & self._listed()) - living - self.consumed

    def _listed(self) -> set[str]:
        return {uid for record in self.memory.of_kind(OPERATIONS) for uid in record.status.units if uid}

    async def _work_off(self, queue: SeedingQueue) -> None:
        for _ in range(MOST_TRIES):
            if queue._queue.empty():
                return
            batch = queue._queue.get_nowait()
            if not await queue._try(batch):
                queue._queue.put_nowait(batch)

    def _unfinished(self) -> list[Operation]:
        return [each for each in self.memory.of_kind(OPERATIONS) if UNFINISHED in each.metadata.labels]

    def _replica(self, units: Store[GPUUnit] | None = None) -> tuple[Executors, Sweeper]:
        """A replica whose caches know what was there a moment ago, and never hear of a change; or with these units."""
        if self._replicas % self.caches_last == 0:
            self._caches = self._snapshot()
        self._replicas += 1
        records, cached, pools, namespaces, picker = self._caches
        operations = Operations(self.memory, PLATFORM.system_namespace, self.clock)
        executors = Executors(
            self.memory,
            operations,
            PLATFORM,
            HandOver(self.memory, operations, picker, Reservations(self.memory)),
            self.rules.seeding(self.memory, operations, picker, STOCK, one_by_one),
            units=cached if units is None else units,
            pools=pools,
            namespaces=namespaces,
            waiter=Impatient(Store[Operation]()),
        )
        return executors, Sweeper(self.memory, operations, PLATFORM, executors.registry, records, clock=self.clock)

    def _snapshot(self) -> Caches:
        records, cache, places = Store[Operation](), Store[GPUUnit](), Store[Namespace]()
        cache.index(BY_SPEC, by_spec)
        cache.index(BY_OPERATION, by_operation)
        records.replace(self._unfinished(), "1")
        cache.replace(self.memory.of_kind(GPU_UNITS), "1")
        places.replace(self.memory.of_kind(NAMESPACES), "1")
        picker = StockPicker(self.memory, cache, STOCK, None, self.rng)
        return records, cache, Store[StockPool](), Namespaces(self.memory, places), picker
