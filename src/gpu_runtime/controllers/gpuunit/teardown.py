"""Deletes the Deployment of a unit that is gone, so that its pod frees its GPUs at once.

The garbage collector would delete it too, but it discovers new custom kinds only every 30 s, and not at all while any
API of the cluster prevents its sync. The Deployment's own children are built-in kinds, which it always knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS, Deployment
from gpu_runtime.controllers.product_kinds import GPU_UNITS
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.store import Delta

ORPHAN = "orphan"
"""Finalizer of an object whose deletion leaves its children alone (`kubectl delete --cascade=orphan`)."""


class UnitIdentity(Struct, frozen=True):
    """The identity of a unit. A unit whose spec cannot be read still exists, so the spec is not decoded."""

    metadata: ObjectMeta


@dataclass(frozen=True)
class Teardown:
    """Deletes Deployments of deleted units, whoever deleted the unit: the API, the sweeper or a person."""

    client: Client
    caches: Caches
    _asked: set[str] = field(default_factory=set)
    """UIDs of Deployments that were asked to be deleted and that the cache still shows. Saves a second request."""

    def __post_init__(self) -> None:
        self.caches.deployments.store.subscribe(self._forget)

    async def remove(self, key: Key) -> None:
        """Deletes the Deployment of this name if it belongs to a unit that is gone or being deleted."""
        made = self.caches.deployments.get(key)
        owner = _unit_of(made)
        if made is None or owner is None or made.metadata.deletionTimestamp is not None:
            return
        unit = self.caches.units.get(key)
        if unit is not None and unit.metadata.uid == owner.uid and not is_ending(unit.metadata):
            return
        uid = made.metadata.uid
        if uid in self._asked:
            return
        self._asked.add(uid)
        try:
            if await self._lives(key, owner.uid):
                self._asked.discard(uid)
                return
            # With the version: `kubectl delete --cascade=orphan` removes the owner reference first, and then this
            # Deployment must stay.
            version = made.metadata.resourceVersion
            await self.client.delete(DEPLOYMENTS, key, uid=uid, resource_version=version, propagation="Background")
        except NotFound:
            return
        except BaseException:
            self._asked.discard(uid)
            raise

    async def _lives(self, key: Key, uid: str) -> bool:
        """Whether the unit exists on the server. A cache may be behind, or unable to decode the unit."""
        try:
            unit = await self.client.get(GPU_UNITS.view(UnitIdentity), key)
        except NotFound:
            return False
        return unit.metadata.uid == uid and not is_ending(unit.metadata)

    def _forget(self, delta: Delta[Deployment]) -> None:
        if delta.old is not None and (delta.new is None or delta.new.metadata.uid != delta.old.metadata.uid):
            self._asked.discard(delta.old.metadata.uid)


def is_ending(unit: ObjectMeta) -> bool:
    """Whether the unit is being deleted together with its children. A deletion cannot be undone."""
    return unit.deletionTimestamp is not None and ORPHAN not in unit.finalizers


def _unit_of(made: Deployment | None) -> OwnerReference | None:
    owner = made.metadata.controller if made is not None else None
    ours = owner is not None and (owner.apiVersion, owner.kind) == (GPU_UNITS.api_version, GPU_UNITS.kind)
    return owner if ours else None
