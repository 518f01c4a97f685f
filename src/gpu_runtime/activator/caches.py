"""The caches of the activator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_runtime.activator.kinds import GPU_FUNCTIONS, GPU_UNITS, HANDLER_MAP_VIEWS, HandlerMapView
from gpu_runtime.activator.resources import names
from gpu_runtime.activator.resources.children import SELECTOR
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.own_writes import OwnWrites

BY_FUNCTION = "function"


@dataclass(frozen=True)
class Caches:
    """Functions, all units, and the ConfigMaps of functions without their content."""

    functions: OwnWrites[GPUFunction]
    units: OwnWrites[GPUUnit]
    handlers: OwnWrites[HandlerMapView]

    @classmethod
    def of(cls, manager: Manager) -> Caches:
        caches = cls(
            functions=OwnWrites(manager.cache(Query(GPU_FUNCTIONS))),
            units=OwnWrites(manager.cache(Query(GPU_UNITS))),
            handlers=OwnWrites(manager.cache(Query(HANDLER_MAP_VIEWS, labels=SELECTOR))),
        )
        caches.units.store.index(BY_FUNCTION, lambda unit: map(str, function_of(unit)))
        caches.handlers.store.index(BY_FUNCTION, lambda handler: map(str, function_of_handler(handler)))
        return caches

    def units_of(self, key: Key) -> list[GPUUnit]:
        """The units that work for the function, its own and static ones, as the cache shows them."""
        return self.units.find(BY_FUNCTION, str(key))

    def workers_of(self, function: GPUFunction) -> list[GPUUnit]:
        """The units with names of the function's workers, including those that this process has just written."""
        key = function.metadata.key
        found = {unit.metadata.name: unit for unit in self.units_of(key)}
        for slot in range(function.spec.maxWorkers):
            name = names.worker(key.name, slot)
            if (unit := self.units.get(Key(key.namespace, name))) is not None:
                found[name] = unit
        return list(found.values())


def function_of(unit: GPUUnit) -> Iterator[Key]:
    """The function that the unit works for, if any."""
    serverless = unit.spec.serverless
    if serverless.enabled and serverless.requestID:
        yield Key(unit.metadata.namespace, serverless.requestID)


def function_of_handler(handler: HandlerMapView) -> Iterator[Key]:
    if name := handler.metadata.labels.get(labels.FUNCTION):
        yield Key(handler.metadata.namespace, name)
