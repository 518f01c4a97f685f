"""The scene: two stock units with their pods, two executors of one operation, a rival, sweeper and reconciler.

All of them are the real code; only the end of pods is played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from random import Random
from typing import Any

from equipment.clock import FakeClock
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.provenance import is_inert, source_of
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.gpuunit.admitter import Admitter, Settled
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.readiness import Blocked
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.errors import Conflict, KubeError, NotFound
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.records import Operations, unfinished
from gpu_runtime.service.operations.sweeper import Sweeper
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces
from gpu_runtime.service.stock.batch_executor import BY_OPERATION, by_operation
from gpu_runtime.service.stock.claim import holder
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver
from unit.service.executors import Executors
from unit.service.exploration.memory import Process, Turn
from unit.service.exploration.states import Comparable
from unit.service.exploration.stock_objects import PODS, a_stock_unit, its_pod

PLATFORM = Platform(allowed_namespaces=("runtime-instance",))
STOCKS = 2
MOST_PASSES = 12
Choose = Callable[[int], int]
EXECUTORS = (("A1", "a"), ("A2", "a"), ("B", "b"))


class Chance(Random):
    """Where the code picks at random, the schedule picks."""

    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self._choose = choose

    def choice(self, seq: Any) -> Any:
        return seq[self._choose(len(seq))]


class Impatient(OperationWaiter):
    """A replay that does not wait: two executors of one operation at once are what is explored."""

    async def wait(self, record: Operation, seconds: float) -> bool:
        return False


class EmptyCaches:
    """Caches as a controller gets them from its manager; that of pods stays empty, and so is always behind."""

    def cache(self, _: Query[Any]) -> Store[Any]:
        return Store()


class Violation(AssertionError):
    """What must never be was seen, with the steps that led there."""


class Scene:
    """One play. `handover` may be a broken copy."""

    def __init__(
        self,
        choose: Choose,
        handover: type[HandOver] = HandOver,
        controller: type[Admitter] = Admitter,
        second: tuple[int, ...] = (),
    ) -> None:
        self.memory = Comparable()
        self.active: dict[str, str] = {}  # UID of a unit whose workload was built: UID of its stock
        self.trace: list[str] = []
        self._choose = choose
        self._handover = handover
        self._controller = controller
        self.clock = FakeClock()
        for name in (PLATFORM.instance_namespace, PLATFORM.stock_namespace, PLATFORM.system_namespace):
            self.memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
        self.stock = [self.memory.put(GPU_UNITS, a_stock_unit(number)) for number in range(STOCKS)]
        for unit in self.stock:
            self.memory.put(PODS, its_pod(unit))
        self.processes = [
            *(
                Process(name, self._executor(operation, _second if number in second else choose))
                for number, (name, operation) in enumerate(EXECUTORS)
            ),
            Process("S1", self.sweep),
            Process("S2", self.sweep),
            Process("R1", self.reconcile),
            Process("R2", self.reconcile),
            Process("K", self.end_pods),
        ]

    def step(self, process: Process) -> None:
        """One call of one process, then a look at everything."""
        self.trace.append(process.step())
        if process.done and process.error is not None:
            self.trace.append(f"{process.name} ended with {process.error!r}")
            if not isinstance(process.error, ServiceError | KubeError):
                raise self._violation(f"{process.name} failed in a way that no client can be told of")
        self.check()

    def seen_by(self, process: Process) -> int:
        """All that the next call of the process can depend on. Executors begin with caches that are always the same."""
        if process.next != "start":
            return self.memory.seen_by(process.next)
        return 0 if process in self.processes[: len(EXECUTORS)] else self.left()

    def left(self) -> int:
        """The same for two plays that leave the same behind if all processes stop now."""
        return hash((self.memory.state(), frozenset(self.active.items())))

    def stopped(self) -> Scene:
        """A copy in which all executors are dead; this one can go on."""
        other = copy(self)
        other.memory, other.active, other.trace = self.memory.copy(), dict(self.active), list(self.trace)
        other.processes = []
        return other

    def end(self) -> None:
        """All executors are dead by now; what sweeper and reconciler cannot improve must be right."""
        for process in self.processes:
            process.stop()
        for _ in range(MOST_PASSES):
            before = (self.memory.version, dict(self.active))
            for name, work in (
                ("sweeper", self.sweep),
                ("end of pods", self.end_pods),
                ("reconciler", self.reconcile),
            ):
                last = Process(name, work)
                while not last.done:
                    self.step(last)
                assert last.error is None, last.error
            if before == (self.memory.version, self.active):
                self.check_end()
                return
        raise self._violation("sweeper and reconciler never come to rest")

    # What must hold, in the words of the model.

    def check(self) -> None:
        taken = list(self.active.values())
        if len(taken) != len(set(taken)):
            raise self._violation("one stock unit, two owners")

    def check_built(self, source: str) -> None:
        if any(pod.metadata.labels[CONTROLLED_BY] == source for pod in self.memory.of_kind(PODS)):
            raise self._violation("a workload was built while the pod of its stock still holds the GPU")

    def check_end(self) -> None:
        self.check()
        units = {unit.metadata.uid: unit for unit in self.memory.of_kind(GPU_UNITS)}
        records = {record.metadata.uid: record for record in self.memory.of_kind(OPERATIONS)}
        stock = [unit for unit in units.values() if unit.metadata.namespace == PLATFORM.stock_namespace]
        users = [unit for unit in units.values() if unit.metadata.namespace != PLATFORM.stock_namespace]
        if any(holder(unit) for unit in stock):
            raise self._violation("stock stays claimed")
        if len(self.active) != STOCKS - len(stock):
            raise self._violation(f"{STOCKS - len(stock)} stock units consumed for {len(self.active)} units")
        if any(unfinished(record) or record.status.phase == "Failed" for record in records.values()):
            raise self._violation("an operation that nobody ends")
        for unit in users:
            if unit.metadata.annotations[OPERATION_UID] not in records:
                raise self._violation(f"an orphan unit {unit.metadata.name}")
            if unit.metadata.uid not in self.active:
                raise self._violation(f"unit {unit.metadata.name} waits for ever")
        for record in records.values():
            if record.status.objects[0].uid not in self.active:
                raise self._violation(f"committed operation {record.spec.operationID} without its unit")

    def _violation(self, what: str) -> Violation:
        return Violation("\n".join([what, *self.trace]))

    # The processes.

    def _executor(self, operation: str, choose: Choose) -> Callable[[], Any]:
        async def run() -> Any:
            sent = {"operationID": operation, "name": f"unit-{operation}", "specName": "g1", "image": "a"}
            return await self._replica(choose).units.create(parse(CreateGPUUnit, sent), sent)

        return run

    def _replica(self, choose: Choose) -> Executors:
        """A replica whose cache of stock never hears of a claim: the worst that a cache can be."""
        namespaces = Store[Namespace]()
        namespaces.replace(self.memory.of_kind(NAMESPACES), "1")
        return self._executors(self._operations(), self._store(self.stock), namespaces, choose)

    def _executors(
        self, operations: Operations, units: Store[GPUUnit], namespaces: Store[Namespace], choose: Choose
    ) -> Executors:
        picker = self._picker(units, choose)
        return Executors(
            self.memory,
            operations,
            PLATFORM,
            self._handover(self.memory, operations, picker, Reservations(self.memory, self.clock)),
            Seeding(self.memory, operations, picker, PLATFORM.stock_namespace),
            units=units,
            pools=Store[StockPool](),
            namespaces=Namespaces(self.memory, namespaces),
            waiter=Impatient(Store[Operation]()),
        )

    async def sweep(self) -> None:
        """One pass over what a cache knows at its beginning, as old as it may be when its turn comes."""
        await self.sweeper().sweep()

    def sweeper(self, units: Store[GPUUnit] | None = None) -> Sweeper:
        """A sweeper whose caches know what is there now; or with these units."""
        operations, records = self._operations(), Store[Operation]()
        records.replace(
            [each for each in self.memory.of_kind(OPERATIONS) if "unfinished" in str(each.metadata.labels)], "1"
        )
        units = self._store(self.memory.of_kind(GPU_UNITS)) if units is None else units
        registry = self._executors(operations, units, Store[Namespace](), self._choose).registry
        return Sweeper(self.memory, operations, PLATFORM, registry, records, clock=self.clock)

    async def reconcile(self) -> None:
        """One pass of the unit's controller: admits, removes or waits; builds once the stock is gone."""
        caches = Caches.of(EmptyCaches())  # type: ignore[arg-type]
        caches.units.store.replace(self.memory.of_kind(GPU_UNITS), "1")
        controller = self._controller(self.memory, caches, self.clock)  # type: ignore[arg-type]
        for unit in self.memory.of_kind(GPU_UNITS):
            if unit.metadata.namespace == PLATFORM.stock_namespace:
                continue
            if is_inert(unit):
                try:
                    await controller.admit(unit)
                except (Settled, Blocked, Conflict, NotFound):
                    continue
            elif unit.metadata.uid not in self.active:
                source = source_of(unit)
                assert source is not None
                try:
                    await controller.release(unit)
                except Blocked:
                    continue
                await Turn("build Deployment")
                self.check_built(source.uid)
                self.active[unit.metadata.uid] = source.uid

    async def end_pods(self) -> None:
        """One pass of garbage collector and kubelet: the pods of stock that is gone end."""
        units = {unit.metadata.uid for unit in self.memory.of_kind(GPU_UNITS)}
        for pod in self.memory.of_kind(PODS):
            if pod.metadata.labels[CONTROLLED_BY] not in units:
                with suppress(NotFound):
                    await self.memory.delete(PODS, pod.metadata.key)

    def _operations(self) -> Operations:
        return Operations(self.memory, PLATFORM.system_namespace, self.clock)

    def _picker(self, cache: Store[GPUUnit], choose: Choose) -> StockPicker:
        return StockPicker(self.memory, cache, PLATFORM.stock_namespace, None, Chance(choose), self.clock)

    def _store(self, units: Sequence[GPUUnit]) -> Store[GPUUnit]:
        store = Store[GPUUnit]()
        store.index(BY_SPEC, by_spec)
        store.index(BY_OPERATION, by_operation)
        store.replace(units, "1")
        return store


def _second(count: int) -> int:
    return min(1, count - 1)


def key_of(name: str) -> Key:
    return Key(PLATFORM.instance_namespace, name)
