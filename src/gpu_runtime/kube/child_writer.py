"""Writes the children of one kind of owner: through `Children`, with a cache of own writes, and with events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.kube.children import Change, Children
from gpu_runtime.kube.errors import Conflict, NotFound, OwnerGone
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.finalizer import remove_finalizers
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.resource import Resource

P = TypeVar("P", bound=Object)
T = TypeVar("T", bound=Object)
DRIFT_REPAIRED = "DriftRepaired"
ATTEMPTS = 10  # to delete a child while other controllers write to it
REPAIRS = {
    Change.CREATED: "was missing and was made again",
    Change.CHANGED: "was changed by somebody else and was put back",
}


class _Identity(Struct, frozen=True):
    metadata: ObjectMeta


@dataclass(frozen=True)
class ChildWriter(Generic[P]):
    """Keeps the children of `owner` as their builders want them."""

    owner: Resource[P]
    children: Children
    recorder: Recorder | None = None
    is_complete: Callable[[P], bool] = lambda _: False
    """Whether all children of the owner's spec were made before. Then a write repairs drift, and an event says so."""

    async def ensure(
        self, parent: P, resource: Resource[T], desired: T, cache: OwnWrites[T], seen: T | None = None
    ) -> T:
        """Makes the child be as `desired`, and returns it as it then is.

        With `seen`, a child that has changed since that version is a Conflict: the caller read something else after it.
        """
        written = await self.children.ensure(resource, desired, seen or cache.get(desired.metadata.key))
        if self.recorder is not None and (repair := REPAIRS.get(written.change)) and self.is_complete(parent):
            message = f"{resource.kind} {desired.metadata.name} {repair}"
            self.recorder.event(self.owner, parent, DRIFT_REPAIRED, message)
        # Only a child that this call created is certain to hold no data.
        if written.change is Change.CREATED and not self.children.ownership.is_collected:
            await self._check_owner(parent, resource, written.object, desired.metadata.finalizers)
        return cache.wrote(written.object)

    async def create(self, parent: P, resource: Resource[T], desired: T, cache: OwnWrites[T]) -> T:
        """Creates the child and never changes one: AlreadyExists when the name is taken, by us or by others."""
        made = await self.children.client.create(resource, desired)
        if not self.children.ownership.is_collected:
            await self._check_owner(parent, resource, made, desired.metadata.finalizers)
        return cache.wrote(made)

    async def remove(self, parent: P, resource: Resource[T], key: Key, cache: OwnWrites[T]) -> None:
        """Deletes a child that is no longer wanted. An object of that name that is not ours stays."""
        cached = cache.get(key)
        if cached is not None and self.children.owns(parent.metadata, cached.metadata):
            await self.children.delete(resource, parent.metadata, cached)

    async def _check_owner(self, parent: P, resource: Resource[T], child: T, finalizers: list[str]) -> None:
        """Raises OwnerGone and deletes the new child if its owner was deleted during the creation.

        A replica with an old cache may create the child after another replica has cleaned up. No write can be fenced by
        the version of another object, and the garbage collector does not know this child. A deletion that begins after
        this read finds the child in its own cleanup.

        A crash or a lost answer before this check can leave a child whose owner is gone. `owned_by_annotation` brings
        the owner's key for it, and the reconciler decides: such a child may hold data.
        """
        client, meta = self.children.client, parent.metadata
        try:
            live = (await client.get(self.owner.view(_Identity), meta.key)).metadata
        except NotFound:
            live = ObjectMeta()
        if live.uid == meta.uid and live.deletionTimestamp is None:
            return
        await self._delete_new(parent, resource, child, finalizers)
        raise OwnerGone(f"{self.owner.kind} {meta.key} was deleted while its {resource.kind} was created")

    async def _delete_new(self, parent: P, resource: Resource[T], child: T, finalizers: list[str]) -> None:
        """Deletes a child that this process just created, though other controllers may write to it already."""
        client = self.children.client
        for attempt in range(ATTEMPTS):
            try:
                left = await remove_finalizers(client, resource, child, finalizers)
                if left is not None:
                    await self.children.delete(resource, parent.metadata, left)
                return
            except Conflict:
                live = await self._same(resource, child)
                if live is None:
                    return
                if attempt == ATTEMPTS - 1:
                    raise
                child = live

    async def _same(self, resource: Resource[T], child: T) -> T | None:
        """The child as the server has it now; None when it is gone."""
        try:
            live = await self.children.client.get(resource, child.metadata.key)
        except NotFound:
            return None
        return live if live.metadata.uid == child.metadata.uid else None
