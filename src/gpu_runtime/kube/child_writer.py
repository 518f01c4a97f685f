"""Writes the children of one kind of owner: through `Children`, with a cache of own writes, and with events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.children import Change, Children
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.resource import Resource

P = TypeVar("P", bound=Object)
T = TypeVar("T", bound=Object)
DRIFT_REPAIRED = "DriftRepaired"
REPAIRS = {
    Change.CREATED: "was missing and was made again",
    Change.CHANGED: "was changed by somebody else and was put back",
}


@dataclass(frozen=True)
class ChildWriter(Generic[P]):
    """Keeps the children of `owner` as their builders want them."""

    owner: Resource[P]
    children: Children
    recorder: Recorder | None = None
    is_complete: Callable[[P], bool] = lambda _: False
    """Whether all children of the owner's spec were made before. Then a write repairs drift, and an event says so."""

    async def ensure(self, parent: P, resource: Resource[T], desired: T, cache: OwnWrites[T]) -> T:
        """Makes the child be as `desired`, and returns it as it then is."""
        written = await self.children.ensure(resource, desired, cache.get(desired.metadata.key))
        if self.recorder is not None and (repair := REPAIRS.get(written.change)) and self.is_complete(parent):
            message = f"{resource.kind} {desired.metadata.name} {repair}"
            self.recorder.event(self.owner, parent, DRIFT_REPAIRED, message)
        return cache.wrote(written.object)

    async def remove(self, parent: P, resource: Resource[T], key: Key, cache: OwnWrites[T]) -> None:
        """Deletes a child that is no longer wanted. An object of that name that is not ours stays."""
        cached = cache.get(key)
        if cached is not None and self.children.owns(parent.metadata, cached.metadata):
            await self.children.delete(resource, parent.metadata, cached)
