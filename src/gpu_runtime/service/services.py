"""All use cases of one process, wired to one cluster and its caches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gpu_runtime.kube.builtin import NAMESPACES
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.manager import Manager
from gpu_runtime.service.aftermath import Aftermath
from gpu_runtime.service.background import SeedingQueue
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.service.finishing import Finishing
from gpu_runtime.service.handover import HandOver
from gpu_runtime.service.inventory import Inventory
from gpu_runtime.service.jobs import Jobs
from gpu_runtime.service.made import Made
from gpu_runtime.service.nodes import NODES, Nodes
from gpu_runtime.service.observing import Observing
from gpu_runtime.service.operations import UNFINISHED, Operations
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.shelf import BY_SPEC, Shelf, by_spec
from gpu_runtime.service.stock import Seeding
from gpu_runtime.service.stock_units import StockUnits
from gpu_runtime.service.stockpools import StockPools
from gpu_runtime.service.sweeper import BY_OPERATION, Sweeper, by_operation
from gpu_runtime.service.units import Units


@dataclass(frozen=True)
class Services:
    """What the routes call, and what runs beside them."""

    platform: Platform
    operations: Operations
    jobs: Jobs
    pools: StockPools
    stock: StockUnits
    units: Units
    observing: Observing
    inventory: Inventory
    seeding: SeedingQueue
    sweeper: Sweeper
    aftermath: Aftermath

    async def work(self) -> None:
        """The work that belongs to no request; runs until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.seeding.run())
                group.create_task(self.sweeper.run())
        finally:
            self.aftermath.stop()


def build(client: Client, manager: Manager, platform: Platform, clock: Clock = SYSTEM_CLOCK) -> Services:
    """The use cases; their caches are filled once the manager runs."""
    unit_cache = manager.cache(Query(GPU_UNITS))
    unit_cache.index(BY_SPEC, by_spec)
    unit_cache.index(BY_OPERATION, by_operation)
    node_cache = manager.cache(Query(NODES))
    pool_cache = manager.cache(Query(STOCK_POOLS))
    unfinished = manager.cache(Query(OPERATIONS, platform.system_namespace, labels=UNFINISHED))

    operations = Operations(client, platform.system_namespace, clock)
    namespaces = Namespaces(client, manager.cache(Query(NAMESPACES)))
    finishing = Finishing(unfinished)
    nodes = Nodes(client, node_cache)
    shelf = Shelf(client, unit_cache, platform.stock_namespace, nodes.usable, nodes=nodes)
    units, pools = Reader(client, GPU_UNITS, unit_cache), Reader(client, STOCK_POOLS, pool_cache)
    made = Made(units, pools)
    aftermath = Aftermath()
    handover = HandOver(client, operations, shelf, aftermath.later)
    seeding = Seeding(client, operations, shelf, platform.stock_namespace)
    queue = SeedingQueue(seeding, operations)
    stock_pools = StockPools(client, operations, platform, pools, namespaces, made)
    user_units = Units(client, operations, platform, units, namespaces, handover, finishing)
    return Services(
        platform=platform,
        operations=operations,
        jobs=Jobs(client, operations, made),
        pools=stock_pools,
        stock=StockUnits(client, operations, platform, units, namespaces, seeding, queue, finishing),
        units=user_units,
        observing=Observing(client, user_units, platform, unit_cache),
        inventory=Inventory(platform, shelf, units, pools, Reader(client, NODES, node_cache), manager.checks, clock),
        seeding=queue,
        sweeper=Sweeper(
            client,
            operations,
            platform,
            handover,
            stock_pools,
            queue,
            unfinished=unfinished,
            units=unit_cache,
            pool_cache=pool_cache,
            clock=clock,
        ),
        aftermath=aftermath,
    )
