"""Children through `kube.Children`, left alone when they equal what is wanted, and their repair told to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Struct, structs

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
from gpu_runtime.kube.children import Change, Children, Written, check_ownership
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
        cached = mirror.get(desired.metadata.key)
        if cached is not None:
            check_ownership(resource, desired, cached)
            if cached.metadata.deletionTimestamp is None and equals(cached, desired):
                return cached
        written: Written[T] = await self.children.ensure(resource, desired, cached)
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


def equals(live: Object, desired: Object) -> bool:
    """Whether the child is as wanted in every field of its Struct; others' labels and annotations do not count."""
    assert isinstance(live, Struct)
    have, want = live.metadata, desired.metadata
    if not (want.labels.items() <= have.labels.items() and want.annotations.items() <= have.annotations.items()):
        return False
    theirs = {"metadata": want} | ({"status": desired.status} if hasattr(desired, "status") else {})
    return structs.replace(live, **theirs) == desired
