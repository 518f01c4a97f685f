"""Finds the children of an owner: those that name it and match its selector. Adopts matching ones without an owner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from gpu_runtime.api.meta.object import Object, OwnerReference, controller_reference, wire
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import Invalid, NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Store, by_owner
from gpu_runtime.local.controllers.selectors import matches
from gpu_runtime.local.kinds.wire import LabelSelector

T = TypeVar("T", bound=Object)
OWNER, ORPHANS = "owner", "orphans"


def index_children(store: Store[Any]) -> None:
    """Adds the indexes that claiming reads. Several controllers share one store: the first of them adds them."""
    if len(store) == 0:
        store.index(OWNER, by_owner)
        store.index(ORPHANS, _orphans)


def _orphans(obj: Object) -> Iterable[str]:
    return () if obj.metadata.controller is not None else (obj.metadata.namespace,)


class Claiming(Generic[T]):
    """Adopts and releases children of kind `child` for owners of kind `owner`."""

    def __init__(self, client: Client, owner: Resource[Any], child: Resource[T], store: Store[T]) -> None:
        self._client = client
        self._owner = owner
        self._child = child
        self._store = store

    async def children(self, owner: Object, selector: LabelSelector) -> list[T]:
        """The children as the cache shows them, adoptions of this call included."""
        meta = owner.metadata
        own = [one for one in self._store.find(OWNER, meta.uid) if _controls(one, meta.uid)]
        kept = [one for one in own if matches(selector, one.metadata.labels)]
        if meta.deletionTimestamp is not None:
            return kept
        for child in own:
            if not matches(selector, child.metadata.labels):
                await self._release(child, meta.uid)
        free = [one for one in self._store.find(ORPHANS, meta.namespace) if self._adoptable(one, selector)]
        if free and await self._still_there(owner):
            reference = controller_reference(self._owner.api_version, self._owner.kind, meta)
            adopted = [await self._adopt(child, reference) for child in free]
            kept += [one for one in adopted if one is not None]
        return kept

    def _adoptable(self, child: T, selector: LabelSelector) -> bool:
        return child.metadata.deletionTimestamp is None and matches(selector, child.metadata.labels)

    async def _still_there(self, owner: Object) -> bool:
        # A cache that is behind must not give children to an owner that is gone: nobody would ever delete them.
        try:
            live = await self._client.get(self._owner, owner.metadata.key)
        except NotFound:
            return False
        return live.metadata.uid == owner.metadata.uid and live.metadata.deletionTimestamp is None

    async def _adopt(self, child: T, reference: OwnerReference) -> T | None:
        owners = [*child.metadata.ownerReferences, reference]
        try:
            return await self._write(child, owners)
        except (NotFound, Invalid):
            return None

    async def _release(self, child: T, owner: str) -> None:
        owners = [one for one in child.metadata.ownerReferences if one.uid != owner]
        try:
            await self._write(child, owners)
        except NotFound:
            return

    async def _write(self, child: T, owners: list[OwnerReference]) -> T:
        metadata: dict[str, object] = {**identity(child.metadata), "ownerReferences": wire(owners) or None}
        return await self._client.patch(self._child, child.metadata.key, {"metadata": metadata})


def _controls(child: Object, owner: str) -> bool:
    controller = child.metadata.controller
    return controller is not None and controller.uid == owner
