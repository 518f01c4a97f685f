"""The use cases of one API process on an API in memory; its caches hold what the test puts there, however old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from equipment.clock import FakeClock
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit
from gpu_runtime.rest.views import UnitView
from gpu_runtime.service.cluster import GPU_FUNCTIONS, GPU_STORAGES, GPU_UNITS
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces
from gpu_runtime.service.stock.nodes import NODES, Node, NodeCondition, Nodes, NodeSpec, NodeStatus
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver
from unit.service.executors import Executors
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory

PLATFORM = Platform(allowed_namespaces=("runtime-instance", "default"))
NODE = "node-1"


class Waiting(OperationWaiter):
    """Lets something happen while a replay waits for the other executor."""

    def __init__(self) -> None:
        super().__init__(Store[Operation]())
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def wait(self, record: Operation, seconds: float) -> bool:
        if self.meanwhile is not None:
            await self.meanwhile()
        return False


class Replica:
    """One process. Its caches are empty and not listed until `listen`, and never follow by themselves."""

    def __init__(self, memory: Memory, *, pick: int = 0) -> None:
        self.memory = memory
        self.clock = FakeClock()
        self.unit_cache, self.node_cache = Store[GPUUnit](), Store[Node]()
        self.namespace_cache = Store[Namespace]()
        self.unit_cache.index(BY_SPEC, by_spec)
        self.waiting = Waiting()
        self.operations = Operations(memory, PLATFORM.system_namespace, self.clock)
        nodes = Nodes(memory, self.node_cache)
        self.picker = StockPicker(memory, self.unit_cache, PLATFORM.stock_namespace, nodes, First(pick), self.clock)
        self.handover = HandOver(memory, self.operations, self.picker, Reservations(memory))
        self.pool_cache, self.storage_cache = Store[StockPool](), Store[GPUStorage]()
        self.function_cache = Store[GPUFunction]()
        self.namespaces = Namespaces(memory, self.namespace_cache)
        self.executors = Executors(
            memory,
            self.operations,
            PLATFORM,
            self.handover,
            Seeding(memory, self.operations, self.picker, PLATFORM.stock_namespace),
            units=self.unit_cache,
            pools=self.pool_cache,
            namespaces=self.namespaces,
            waiter=self.waiting,
            storages=self.storage_cache,
            functions=self.function_cache,
        )
        self.pools, self.units = self.executors.pools, self.executors.units
        self.storages = self.executors.storages
        self.functions = self.executors.functions

    def listen(self) -> Replica:
        """All caches are as the server is now."""
        version = str(self.memory.version)
        self.unit_cache.replace(self.memory.of_kind(GPU_UNITS), version)
        self.storage_cache.replace(self.memory.of_kind(GPU_STORAGES), version)
        self.function_cache.replace(self.memory.of_kind(GPU_FUNCTIONS), version)
        self.node_cache.replace(self.memory.of_kind(NODES), version)
        self.namespace_cache.replace(self.memory.of_kind(NAMESPACES), version)
        return self

    def create(self, **body: Any) -> tuple[UnitView, bool]:
        return finish(self.create_later(**body))

    def create_later(self, **body: Any) -> Awaitable[tuple[UnitView, bool]]:
        sent = {"operationID": "a", "name": "demo", "specName": "g1", "image": "a", **body}
        return self.units.create(parse(CreateGPUUnit, sent), sent)


class First(Random):
    """Picks in a known order."""

    def __init__(self, pick: int) -> None:
        super().__init__()
        self._pick = pick

    def choice(self, seq: Sequence[Any]) -> Any:  # type: ignore[override]
        return seq[min(self._pick, len(seq) - 1)]


def a_world(memory: Memory, *, stock: int = 2) -> Memory:
    """Namespaces, one node and Ready stock on it."""
    for name in (PLATFORM.instance_namespace, PLATFORM.stock_namespace, PLATFORM.system_namespace):
        memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=name)))
    memory.put(NODES, a_node())
    for number in range(stock):
        memory.put(GPU_UNITS, a_stock_unit(f"stock-{number}"))
    return memory


def a_node(*, closed: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name=NODE),
        spec=NodeSpec(unschedulable=closed),
        status=NodeStatus(conditions=[NodeCondition("Ready", "True")]),
    )


def a_stock_unit(name: str, *, labelled: bool = True) -> GPUUnit:
    ready = Condition.true("Ready", "StockReady", generation=1)
    return GPUUnit(
        metadata=ObjectMeta(
            name=name, namespace=PLATFORM.stock_namespace, labels={labels.SPEC_NAME: "g1"} if labelled else {}
        ),
        spec=GPUUnitSpec(specName="g1", cpu="2", memory="1Gi", gpu=1),
        status=GPUUnitStatus(phase="Ready", observedGeneration=1, nodeName=NODE, conditions=[ready]),
    )


def a_users_unit(name: str = "demo") -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name=name, namespace=PLATFORM.instance_namespace), spec=GPUUnitSpec(specName="g1")
    )


def key_of(name: str) -> Key:
    return Key(PLATFORM.instance_namespace, name)
