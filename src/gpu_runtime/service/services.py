"""All use cases of one process, wired to one cluster and its caches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube.builtin import NAMESPACES
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.manager import Manager
from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service.cluster import GPU_FUNCTIONS, GPU_STORAGES, GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.service.functions.function_executor import FunctionExecutor
from gpu_runtime.service.functions.functions import Functions
from gpu_runtime.service.functions.load import load_of, unknown_load
from gpu_runtime.service.functions.view import listed_function
from gpu_runtime.service.inventory.inventory import Inventory
from gpu_runtime.service.invocations.functions import BY_FUNCTION, by_function
from gpu_runtime.service.invocations.functions import Functions as InvokedFunctions
from gpu_runtime.service.invocations.serverless import Serverless, ServerlessParts, build_serverless
from gpu_runtime.service.operations.after_reply import AfterReply
from gpu_runtime.service.operations.jobs import Jobs
from gpu_runtime.service.operations.records import UNFINISHED, Operations
from gpu_runtime.service.operations.registry import Registry
from gpu_runtime.service.operations.sweeper import Sweeper
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.batch_executor import BY_OPERATION, BatchExecutor, by_operation
from gpu_runtime.service.stock.nodes import NODES, Nodes
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.stock.pool_executor import PoolExecutor
from gpu_runtime.service.stock.pools import StockPools
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.stock.seeding_queue import SeedingQueue
from gpu_runtime.service.stock.stock_units import StockUnits
from gpu_runtime.service.storages.admission import StorageAdmission
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.storages.storage_executor import StorageExecutor
from gpu_runtime.service.storages.storages import Storages
from gpu_runtime.service.units.handover import HandOver
from gpu_runtime.service.units.observing import Observing
from gpu_runtime.service.units.unit_executor import UnitExecutor
from gpu_runtime.service.units.units import Units
from gpu_runtime.service.views import storage_view, unit_view
from gpu_runtime.service.watching import Watching


@dataclass(frozen=True)
class Services:
    """The use cases that the routes call, and the background work."""

    platform: Platform
    operations: Operations
    jobs: Jobs
    pools: StockPools
    stock: StockUnits
    units: Units
    storages: Storages
    functions: Functions
    observing: Observing
    watching_units: Watching[GPUUnit]
    watching_storages: Watching[GPUStorage]
    watching_functions: Watching[GPUFunction]
    inventory: Inventory
    seeding: SeedingQueue
    sweeper: Sweeper
    after_reply: AfterReply
    optional_serverless: Serverless | None = None
    """None: no broker is configured."""

    @property
    def serverless(self) -> Serverless:
        if self.optional_serverless is None:
            raise Unavailable("serverless is not configured: set nats.url")
        return self.optional_serverless

    async def work(self) -> None:
        """The background work; runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.seeding.run())
                group.create_task(self.sweeper.run())
                if self.optional_serverless is not None:
                    group.create_task(self.optional_serverless.work())
        finally:
            self.after_reply.stop()


def build(
    client: Client,
    manager: Manager,
    platform: Platform,
    clock: Clock = SYSTEM_CLOCK,
    serverless: ServerlessParts | None = None,
) -> Services:
    """Builds the use cases. Their caches are filled once the manager runs."""
    unit_cache = manager.cache(Query(GPU_UNITS))
    unit_cache.index(BY_SPEC, by_spec)
    unit_cache.index(BY_OPERATION, by_operation)
    unit_cache.index(BY_FUNCTION, by_function)
    node_cache = manager.cache(Query(NODES))
    pool_cache = manager.cache(Query(STOCK_POOLS))
    storage_cache = manager.cache(Query(GPU_STORAGES))
    function_cache = manager.cache(Query(GPU_FUNCTIONS))
    unfinished = manager.cache(Query(OPERATIONS, platform.system_namespace, labels=UNFINISHED))

    operations = Operations(client, platform.system_namespace, clock)
    namespaces = Namespaces(client, manager.cache(Query(NAMESPACES)))
    waiter = OperationWaiter(unfinished)
    nodes = Nodes(client, node_cache)
    picker = StockPicker(client, unit_cache, platform.stock_namespace, nodes)
    units, pools = Reader(client, GPU_UNITS, unit_cache), Reader(client, STOCK_POOLS, pool_cache)
    storages = Reader(client, GPU_STORAGES, storage_cache)
    functions = Reader(client, GPU_FUNCTIONS, function_cache)
    after_reply = AfterReply()
    reservations = Reservations(client, clock)
    handover = HandOver(client, operations, picker, reservations, after_reply.later)
    seeding = Seeding(client, operations, picker, platform.stock_namespace)
    queue = SeedingQueue(seeding, operations)
    pool_executor = PoolExecutor(client, operations, platform, pools, namespaces)
    batch_executor = BatchExecutor(client, operations, platform, units, namespaces, seeding, queue, waiter)
    unit_executor = UnitExecutor(client, operations, platform, units, namespaces, handover, waiter)
    storage_admission = StorageAdmission(platform, storages, namespaces)
    storage_executor = StorageExecutor(client, operations, storages, storage_admission)
    function_executor = FunctionExecutor(client, operations, platform, functions, namespaces)
    registry = Registry([pool_executor, batch_executor, unit_executor, storage_executor, function_executor])
    invoking = _serverless(platform, units, functions, serverless, clock) if serverless is not None else None
    user_units = Units(client, platform, units, unit_executor, reservations)
    return Services(
        platform=platform,
        operations=operations,
        jobs=Jobs(client, operations, registry),
        pools=StockPools(client, platform, pools, pool_executor),
        stock=StockUnits(client, platform, units, seeding, batch_executor),
        units=user_units,
        storages=Storages(client, storages, storage_admission, storage_executor),
        functions=Functions(
            client,
            platform,
            functions,
            function_executor,
            load_of(invoking.backlog, invoking.heartbeats) if invoking is not None else unknown_load,
        ),
        observing=Observing(client, user_units),
        watching_units=Watching(
            client,
            GPU_UNITS,
            unit_cache,
            partial(unit_view, stock_namespace=platform.stock_namespace),
            without=platform.stock_namespace,
        ),
        watching_storages=Watching(client, GPU_STORAGES, storage_cache, storage_view),
        watching_functions=Watching(client, GPU_FUNCTIONS, function_cache, listed_function),
        inventory=Inventory(platform, picker, units, pools, Reader(client, NODES, node_cache), manager.checks, clock),
        seeding=queue,
        sweeper=Sweeper(client, operations, platform, registry, unfinished, clock=clock),
        after_reply=after_reply,
        optional_serverless=invoking,
    )


def _serverless(
    platform: Platform,
    units: Reader[GPUUnit],
    functions: Reader[GPUFunction],
    parts: ServerlessParts,
    clock: Clock,
) -> Serverless:
    return build_serverless(parts, platform, InvokedFunctions(functions, units), clock)
