"""The inventory: nodes and GPUs, stock and units by spec, and the stock that can be handed over now."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.rest.views import HealthView, InventoryView, NodeView, SpecView
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.stock.nodes import GPU_PRODUCT, Node, gpus
from gpu_runtime.service.stock.picker import StockPicker
from gpu_runtime.service.stock.unit_size import UnitSize
from gpu_runtime.service.views import reported_status

Checks = Callable[[], Mapping[str, str | None]]


class Inventory:
    """Counts cached objects; never calls the cluster."""

    def __init__(
        self,
        platform: Platform,
        picker: StockPicker,
        units: Reader[GPUUnit],
        pools: Reader[StockPool],
        nodes: Reader[Node],
        checks: Checks,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._platform = platform
        self._picker = picker
        self._units = units
        self._pools = pools
        self._nodes = nodes
        self._checks = checks
        self._clock = clock
        self._began = clock.now()
        self._began_at = clock.monotonic()

    def view(self) -> InventoryView:
        nodes = sorted((_node_view(node) for node in self._nodes.all()), key=lambda node: node.name)
        return InventoryView(
            nodeCount=len(nodes),
            readyNodeCount=sum(node.ready for node in nodes),
            totalGPUCapacity=sum(node.gpuCapacity for node in nodes),
            totalGPUAllocatable=sum(node.gpuAllocatable for node in nodes),
            nodes=nodes,
            specs=self._specs(),
        )

    def health(self) -> HealthView:
        """Answers from the caches, also while the cluster is unreachable."""
        problems = {name: problem for name, problem in self._checks().items() if problem is not None}
        nodes = list(self._nodes.store)
        units = list(self._units.store)
        stock = sum(unit.metadata.namespace == self._platform.stock_namespace for unit in units)
        return HealthView(
            status="degraded" if problems else "ok",
            startedAt=self._began,
            uptimeSeconds=int(self._clock.monotonic() - self._began_at),
            kubernetesConnected=not problems,
            problems=problems,
            nodeCount=len(nodes),
            readyNodeCount=sum(node.ready for node in nodes),
            totalGPUCapacity=sum(gpus(node.status.capacity) for node in nodes),
            totalGPUAllocatable=sum(gpus(node.status.allocatable) for node in nodes),
            stockPoolCount=len(self._pools.store),
            stockUnitCount=stock,
            activeUnitCount=len(units) - stock,
        )

    def _specs(self) -> list[SpecView]:
        sizes: dict[str, UnitSize] = {}
        stock: dict[str, Counter[str]] = defaultdict(Counter)
        active: dict[str, Counter[str]] = defaultdict(Counter)
        for unit in self._units.all():
            name = unit.spec.specName
            in_stock = unit.metadata.namespace == self._platform.stock_namespace
            if in_stock or name not in sizes:
                sizes[name] = UnitSize.of(unit.spec)
            if in_stock:
                stock[name][self._picker.state(unit)] += 1
            else:
                active[name][reported_status(unit).phase] += 1
        return [
            SpecView(
                specName=name,
                cpu=size.cpu,
                memory=size.memory,
                gpu=size.gpu,
                handOverNow=stock[name]["ready"],
                stock=dict(sorted(stock[name].items())),
                units=dict(sorted(active[name].items())),
            )
            for name, size in sorted(sizes.items())
        ]


def _node_view(node: Node) -> NodeView:
    return NodeView(
        name=node.metadata.name,
        ready=node.ready,
        schedulable=node.schedulable,
        gpuProduct=node.metadata.labels.get(GPU_PRODUCT, "unknown"),
        gpuCapacity=gpus(node.status.capacity),
        gpuAllocatable=gpus(node.status.allocatable),
    )
