"""The executors of one API process on an API in memory."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube.store import Store
from gpu_runtime.service.cluster import GPU_FUNCTIONS, GPU_STORAGES, GPU_UNITS, STOCK_POOLS, Cluster
from gpu_runtime.service.functions.function_executor import FunctionExecutor
from gpu_runtime.service.functions.functions import Functions
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.operations.registry import Registry
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.batch_executor import BatchExecutor
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
from gpu_runtime.service.units.unit_executor import UnitExecutor
from gpu_runtime.service.units.units import Units


class Executors:
    """All executors and the use cases that call them."""

    def __init__(
        self,
        cluster: Cluster,
        operations: Operations,
        platform: Platform,
        handover: HandOver,
        seeding: Seeding,
        *,
        units: Store[GPUUnit],
        pools: Store[StockPool],
        namespaces: Namespaces,
        waiter: OperationWaiter,
        storages: Store[GPUStorage] | None = None,
        functions: Store[GPUFunction] | None = None,
    ) -> None:
        unit_reader, pool_reader = Reader(cluster, GPU_UNITS, units), Reader(cluster, STOCK_POOLS, pools)
        self.queue = SeedingQueue(seeding, operations)
        self.of_pools = PoolExecutor(cluster, operations, platform, pool_reader, namespaces)
        self.of_batches = BatchExecutor(
            cluster, operations, platform, unit_reader, namespaces, seeding, self.queue, waiter
        )
        self.of_units = UnitExecutor(cluster, operations, platform, unit_reader, namespaces, handover, waiter)
        storage_reader = Reader(cluster, GPU_STORAGES, storages if storages is not None else Store[GPUStorage]())
        admission = StorageAdmission(platform, storage_reader, namespaces)
        self.of_storages = StorageExecutor(cluster, operations, storage_reader, admission)
        function_reader = Reader(cluster, GPU_FUNCTIONS, functions if functions is not None else Store[GPUFunction]())
        self.of_functions = FunctionExecutor(cluster, operations, platform, function_reader, namespaces)
        self.registry = Registry([self.of_pools, self.of_batches, self.of_units, self.of_storages, self.of_functions])
        self.functions = Functions(cluster, platform, function_reader, self.of_functions)
        self.pools = StockPools(cluster, platform, pool_reader, self.of_pools)
        self.stock = StockUnits(cluster, platform, unit_reader, seeding, self.of_batches)
        self.storages = Storages(cluster, storage_reader, admission, self.of_storages)
        self.units = Units(cluster, platform, unit_reader, self.of_units, Reservations(cluster))
