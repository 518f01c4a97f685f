"""Workers from stock: the hand-over of the service layer, for the units of a function."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex

from gpu_runtime.activator.resources.worker import fits, stock_request
from gpu_runtime.api.meta.object import wire
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube.builtin import NAMESPACES
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.manager import Manager
from gpu_runtime.rest.errors import AlreadyExists, InsufficientCapacity
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.after_reply import AfterReply
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.operations.records import UNFINISHED, Operations
from gpu_runtime.service.operations.waiter import OperationWaiter
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces, Reader
from gpu_runtime.service.stock.nodes import NODES, Nodes
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver
from gpu_runtime.service.units.unit_executor import MadeBefore, UnitExecutor


@dataclass(frozen=True)
class Stock:
    """Hands over stock to workers. A hand-over that is abandoned half-way is undone by the runtime-api."""

    picker: StockPicker
    executor: UnitExecutor
    after_reply: AfterReply

    @classmethod
    def of(cls, client: Client, manager: Manager, platform: Platform, clock: Clock) -> Stock:
        units = manager.cache(Query(GPU_UNITS))
        units.index(BY_SPEC, by_spec)
        unfinished = manager.cache(Query(OPERATIONS, platform.system_namespace, labels=UNFINISHED))
        picker = StockPicker(
            client, units, platform.stock_namespace, Nodes(client, manager.cache(Query(NODES))), clock=clock
        )
        operations, after_reply = Operations(client, platform.system_namespace, clock), AfterReply()
        executor = UnitExecutor(
            client,
            operations,
            platform,
            Reader(client, GPU_UNITS, units),
            Namespaces(client, manager.cache(Query(NAMESPACES))),
            HandOver(client, operations, picker, Reservations(client, clock), after_reply.later),
            OperationWaiter(unfinished),
        )
        return cls(picker, executor, after_reply)

    async def hand_over(self, function: GPUFunction, slot: int) -> GPUUnit | None:
        """The new unit. None: there is no stock that fits, or the slot was taken in the meantime."""
        wanted = function.spec.unit
        stock = self.picker.cached(wanted.specName)
        if not stock or not all(fits(wanted, each.spec) for each in stock):
            return None
        request = stock_request(function, slot, token_hex(4))
        try:
            done, _ = await carry_out(self.executor, request, wire(request), "")
        except (InsufficientCapacity, AlreadyExists, MadeBefore):
            return None
        return done.unit
