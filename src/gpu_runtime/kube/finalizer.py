"""A finalizer: the object stays until its controller has cleaned up what the garbage collector cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Finalizer(Generic[T]):
    """One finalizer on the objects of one kind. A reconcile calls `add` or `finish`, each time, and may die anywhere.

        if toy.metadata.deletionTimestamp is not None:
            await finalizer.finish(toy, cleanup)
            return Result()
        toy = await finalizer.add(toy)   # before the first side effect

    Every patch names the UID and the version that the reconcile saw. So a replica with an old cache gets a Conflict.
    """

    name: str
    resource: Resource[T]
    cache: OwnWrites[T]
    client: Client

    async def add(self, obj: T) -> T:
        """The object with the finalizer on the server. Call it before the first side effect, and act on the result."""
        meta = obj.metadata
        assert meta.deletionTimestamp is None, "the server takes no new finalizer on an object that is being deleted"
        if self.name in meta.finalizers:
            return obj
        patch = {"metadata": {**identity(meta), "finalizers": [*meta.finalizers, self.name]}}
        return self.cache.wrote(await self.client.patch(self.resource, meta.key, patch))

    async def finish(self, obj: T, cleanup: Callable[[T], Awaitable[bool]]) -> bool:
        """Runs `cleanup` on an object that is being deleted; removes the finalizer once `cleanup` returns True.

        `cleanup` returns True only when nothing is left, by live reads: a cache may not show the last child yet. It is
        repeated after a crash or a Conflict. While it returns False, a change of what it waits for must add the key to
        the queue again. An object without the finalizer has had no side effect, so there is nothing to clean up.
        """
        assert obj.metadata.deletionTimestamp is not None, "only an object that is being deleted is cleaned up"
        if self.name not in obj.metadata.finalizers:
            return True
        if not await cleanup(obj):
            return False
        if (left := await remove_finalizers(self.client, self.resource, obj, [self.name])) is not None:
            self.cache.wrote(left)
        return True


async def remove_finalizers(client: Client, resource: Resource[T], obj: T, names: Iterable[str]) -> T | None:
    """Removes the finalizers from the version that was seen. Returns the object as it then is; None if it was gone."""
    meta = obj.metadata
    kept = [each for each in meta.finalizers if each not in set(names)]
    if kept == meta.finalizers:
        return obj
    patch = {"metadata": {**identity(meta), "finalizers": kept or None}}
    try:
        return await client.patch(resource, meta.key, patch)
    except NotFound:
        return None
