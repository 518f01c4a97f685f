"""Children through `kube.Children`, and their repair told to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import (
    DEPLOYMENT_PROGRESSING,
    DEPLOYMENT_READY,
    POD_STARTUP_FAILED,
    READY,
    SCALED_TO_ZERO,
    UNIT_PROGRESSING,
    UNIT_READY,
)
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.markers import is_controlled_by
from gpu_runtime.controllers.mirror import Mirror
from gpu_runtime.kube.children import Change, Children, Written
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)
Parent = StockPool | GPUUnit
DRIFT_REPAIRED = "DriftRepaired"
REPAIRS = {
    Change.CREATED: "was missing and was made again",
    Change.CHANGED: "was changed by somebody else and was put back",
}
# Reasons of the Ready condition that are only given when every child is in place.
BUILT = frozenset(
    {
        DEPLOYMENT_READY,
        DEPLOYMENT_PROGRESSING,
        SCALED_TO_ZERO,
        UNIT_READY,
        UNIT_PROGRESSING,
        POD_STARTUP_FAILED,
    }
)


@dataclass(frozen=True)
class ChildWriter:
    """Writes the children of one kind of owner."""

    owner: Resource[Any]
    children: Children
    recorder: Recorder | None = None

    async def ensure(self, parent: Parent, resource: Resource[T], desired: T, mirror: Mirror[T]) -> T:
        """Makes the child be as `desired`, and gives it as it then is."""
        written: Written[T] = await self.children.ensure(resource, desired, mirror.get(desired.metadata.key))
        if self.recorder is not None and (what := REPAIRS.get(written.change)) and is_settled(parent):
            message = f"{resource.kind} {desired.metadata.name} {what}"
            self.recorder.event(self.owner, parent, DRIFT_REPAIRED, message)
        return mirror.wrote(written.object)

    async def remove(self, parent: Parent, resource: Resource[T], key: Key, mirror: Mirror[T]) -> None:
        """Deletes a child that is no longer wanted; what is not ours is none of our business."""
        cached = mirror.get(key)
        if cached is not None and is_controlled_by(cached.metadata, parent.metadata):
            await self.children.delete(resource, parent.metadata, cached)


def is_settled(parent: Parent) -> bool:
    """Whether all children of the spec as it is now were made before: what must still be written is then a repair."""
    ready = find_condition(parent.status.conditions, READY)
    return ready is not None and ready.reason in BUILT and ready.observedGeneration == parent.metadata.generation
