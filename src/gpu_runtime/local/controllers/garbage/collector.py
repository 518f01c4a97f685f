"""The garbage collector: reconciles each object that has owners or is being deleted with dependents."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference, wire
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Controller, Result
from gpu_runtime.kube.errors import NotFound, RetryAfter
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Delta
from gpu_runtime.local.controllers.all_objects import OWNER, UID, AllObjects
from gpu_runtime.local.controllers.finalizers import remove_finalizer
from gpu_runtime.local.controllers.garbage.decisions import (
    FOREGROUND,
    ORPHAN,
    Owner,
    blocks,
    fate,
    state_of,
)
from gpu_runtime.local.kinds.wire import Metadata

REMEMBERED_ABSENT = 4096
UNKNOWN_KIND_SECONDS = 30.0


class GarbageCollector:
    """Keys are uids: an object that was created again under an old name is another object."""

    def __init__(self, client: Client, all_objects: AllObjects) -> None:
        self._client = client
        self._all_objects = all_objects
        self._absent: OrderedDict[str, None] = OrderedDict()
        self._of_unknown_kinds: set[str] = set()
        self._controller = Controller("garbage", self.reconcile, [])
        all_objects.listen(self._changed)
        all_objects.listen_to_kinds(self._kinds_changed)

    async def run(self) -> None:
        """Runs until cancelled; start it before `AllObjects`, which feeds it."""
        await self._controller.run()

    def stop(self) -> None:
        self._controller.stop()

    def _changed(self, _: Resource[Metadata], delta: Delta[Metadata]) -> None:
        meta = delta.object.metadata
        if delta.new is None:
            for _resource, dependent in self._all_objects.find(OWNER, meta.uid):
                self._enqueue(dependent.metadata.uid)
        elif meta.ownerReferences or meta.deletionTimestamp is not None:
            self._enqueue(meta.uid)
        if delta.new is None or meta.deletionTimestamp is not None or _owners_changed(delta):
            for owner in (delta.old or delta.object).metadata.ownerReferences:
                self._enqueue(owner.uid)  # the owner may wait for this object

    def _kinds_changed(self) -> None:
        """Checks children of unknown kinds again: a new kind becomes known after its first objects."""
        waiting, self._of_unknown_kinds = self._of_unknown_kinds, set()
        for uid in waiting:
            self._enqueue(uid)

    def _enqueue(self, uid: str) -> None:
        self._controller.queue.add(Key("", uid))

    async def reconcile(self, key: Key) -> Result:
        await self._all_objects.synced.wait()
        found = self._all_objects.find(UID, key.name)
        if not found:
            return Result()
        # One object may be served by two groups; either name will do.
        resource, obj = found[0]
        meta = obj.metadata
        if meta.deletionTimestamp is not None and FOREGROUND in meta.finalizers:
            await self._foreground(resource, meta)
        elif meta.deletionTimestamp is not None and ORPHAN in meta.finalizers:
            await self._orphan(resource, meta)
        elif meta.ownerReferences and meta.deletionTimestamp is None:
            await self._dependent(resource, meta)
        return Result()

    async def _foreground(self, resource: Resource[Metadata], meta: ObjectMeta) -> None:
        dependents = [obj.metadata for _, obj in self._all_objects.find(OWNER, meta.uid)]
        for dependent in dependents:
            if dependent.deletionTimestamp is None:
                self._enqueue(dependent.uid)
        if not any(blocks(dependent, meta.uid) for dependent in dependents):
            await remove_finalizer(self._client, resource, meta, FOREGROUND)

    async def _orphan(self, resource: Resource[Metadata], meta: ObjectMeta) -> None:
        dependents = self._all_objects.find(OWNER, meta.uid)
        await asyncio.gather(
            *(
                self._set_owners(
                    kind, obj.metadata, [one for one in obj.metadata.ownerReferences if one.uid != meta.uid]
                )
                for kind, obj in dependents
            )
        )
        await remove_finalizer(self._client, resource, meta, ORPHAN)

    async def _dependent(self, resource: Resource[Metadata], meta: ObjectMeta) -> None:
        states = {one.uid: await self._state(meta, one) for one in meta.ownerReferences}
        verdict = fate(meta, states, has_dependents=bool(self._all_objects.find(OWNER, meta.uid)))
        if verdict.owners is not None:
            await self._set_owners(resource, meta, verdict.owners)
        elif verdict.delete is not None:
            try:
                await self._client.delete(resource, meta.key, uid=meta.uid, propagation=verdict.delete)
            except NotFound:
                return

    async def _state(self, dependent: ObjectMeta, reference: OwnerReference) -> Owner:
        if reference.uid in self._absent:
            return Owner.ABSENT
        if found := self._all_objects.find(UID, reference.uid):
            return state_of(found[0][1].metadata)
        resource = self._all_objects.kind(reference.apiVersion, reference.kind)
        if resource is None:
            # An owner of an unknown kind may still exist: its CustomResourceDefinition may come back.
            self._of_unknown_kinds.add(dependent.uid)
            raise RetryAfter(UNKNOWN_KIND_SECONDS, f"{dependent.key} is owned by an unknown kind: {reference.kind}")
        namespace = dependent.namespace if resource.namespaced else ""
        # The cache of that kind may be behind; only a live read tells that an owner is gone.
        try:
            live = (await self._client.get(resource, Key(namespace, reference.name))).metadata
        except NotFound:
            live = None
        if live is not None and live.uid == reference.uid:
            return state_of(live)
        self._absent[reference.uid] = None
        while len(self._absent) > REMEMBERED_ABSENT:
            self._absent.popitem(last=False)
        return Owner.ABSENT

    async def _set_owners(self, resource: Resource[Metadata], meta: ObjectMeta, owners: list[OwnerReference]) -> None:
        patch = {"metadata": {**identity(meta), "ownerReferences": wire(owners) or None}}
        try:
            await self._client.patch(resource, meta.key, patch)
        except NotFound:
            return


def _owners_changed(delta: Delta[Metadata]) -> bool:
    return delta.old is not None and delta.old.metadata.ownerReferences != delta.object.metadata.ownerReferences
