"""The reconciler of storages on an API server, real or embedded, and what a person and a storage driver do there.

No driver runs: a test makes the volumes by hand, and Kubernetes' controllers (or ours, on the embedded server) bind
them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from equipment.builders import a_storage
from equipment.builders.product import StorageBuilder
from equipment.waiting import eventually
from gpu_runtime.api.meta.condition import Condition, find_condition
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS, PersistentVolumeClaim
from gpu_runtime.controllers.gpustorage.registration import add_gpu_storages
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.kube import Client, Manager, NotFound, Query, Recorder, Resource
from gpu_runtime.kube.clock import SYSTEM_CLOCK

NAME = "data"
NOWHERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["nowhere"]}
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES_PATH = "/api/v1/persistentvolumes"
MERGE = "application/merge-patch+json"
Document = dict[str, Any]


class Named(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", Named, namespaced=False)


@asynccontextmanager
async def reconciling(client: Client, recorder: Recorder | None = None) -> AsyncIterator[Manager]:
    """One replica of the reconciler, inside the block."""
    stop, manager = asyncio.Event(), Manager(client, recorder=recorder)
    add_gpu_storages(manager, Caches.of(manager), ControllerManagerSettings(), recorder, SYSTEM_CLOCK)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        try:
            await asyncio.wait_for(manager.leading.wait(), 60)
            yield manager
        finally:
            stop.set()


@dataclass
class StorageWorld:
    """One test's namespace and class. `client` is a person's hand, past the fault proxy."""

    client: Client
    namespace: str
    storage_class: str = field(default_factory=lambda: f"test-{secrets.token_hex(4)}")

    @property
    def key(self) -> Key:
        return Key(self.namespace, NAME)

    async def add_class(self, **fields: Any) -> None:
        """A class whose driver does not run. Volumes of it grow when a test makes them grow."""
        made = {"provisioner": "example.org/away", "allowVolumeExpansion": True, **fields}
        body = {"metadata": {"name": self.storage_class}, **made}
        await self.client.request("POST", CLASSES, body=body, subject="add a class")

    async def change_class(self, **fields: Any) -> None:
        path = f"{CLASSES}/{self.storage_class}"
        await self.client.request("PATCH", path, body=fields, content_type=MERGE, subject="change the class")

    def a_storage(self, size: str = "1Gi") -> StorageBuilder:
        return a_storage(NAME, self.namespace).size(size).spec(storageClassName=self.storage_class)

    async def create(self, size: str = "1Gi") -> None:
        await self.client.create(GPU_STORAGES, self.a_storage(size).document())

    async def storage(self) -> GPUStorage:
        return await self.client.get(GPU_STORAGES, self.key)

    async def claim(self) -> PersistentVolumeClaim:
        return await self.client.get(CLAIMS, self.key)

    async def change(self, patch: Document) -> None:
        await self.client.patch(GPU_STORAGES, self.key, patch)

    async def becomes(self, reason: str, says: str = "") -> GPUStorage:
        """The storage once its Ready condition has this reason and these words, for the current generation."""

        async def probe() -> GPUStorage:
            storage = await self.storage()
            ready = ready_of(storage)
            assert (ready.reason, ready.observedGeneration) == (reason, storage.metadata.generation), ready
            assert says in ready.message, ready
            return storage

        return await eventually(probe, what=f"the storage is {reason} {says!r}")

    async def asks_for(self, size: str) -> None:
        """Returns when the claim asks for this size."""

        async def probe() -> bool:
            return str((await self.claim()).requested) == size

        await eventually(probe, what=f"the claim asks for {size}")

    async def add_volume(self, size: str = "1Gi", claim_uid: str = "") -> None:
        """A volume that is kept for the claim; a controller binds it. With a UID: for this very claim."""
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": self.namespace, "name": NAME, **({"uid": claim_uid} if claim_uid else {})},
            # On no node: a test plays its pods. Stand-in nodes of other tests would run them, and end them at once.
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [NOWHERE]}]}},
        }
        body = {"metadata": {"name": self._volume}, "spec": spec}
        await self.client.request("POST", VOLUMES_PATH, body=body, subject="make a volume")

    async def grow_volume(self, size: str) -> None:
        """What a driver does when a claim asks for more."""
        capacity = {"capacity": {"storage": size}}
        path = f"{VOLUMES_PATH}/{self._volume}"
        await self.client.request("PATCH", path, body={"spec": capacity}, content_type=MERGE, subject="grow")
        await self.client.patch(CLAIMS, self.key, {"status": capacity}, subresource="status")

    async def lose_volume(self) -> None:
        """Deletes the volume under its claim."""
        with suppress(NotFound):
            await self.client.delete(VOLUMES, Key("", self._volume))
            path = f"{VOLUMES_PATH}/{self._volume}"
            body = {"metadata": {"finalizers": None}}
            await self.client.request("PATCH", path, body=body, content_type=MERGE, subject="lose the volume")

    async def limit(self, size: str) -> None:
        """Allows this much storage in the namespace from now on."""
        quotas = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        body = {"metadata": {"name": "limit"}, "spec": {"hard": {"requests.storage": size}}}
        await self.client.request("POST", quotas, body=body, subject="set a quota")

        async def counted() -> bool:
            answer = await self.client.request("GET", f"{quotas}/limit", subject="read the quota")
            return bool(json.loads(answer).get("status", {}).get("used", {}).get("requests.storage", "0") != "0")

        await eventually(counted, what="the quota counts the claim")

    async def bound(self, size: str = "1Gi") -> GPUStorage:
        """A storage with a volume."""
        await self.create(size)
        await self.add_volume(size)
        return await self.becomes("StorageReady")

    async def gone(self) -> None:
        async def probe() -> bool:
            return not await self.left(GPU_STORAGES) and not await self.left(CLAIMS)

        await eventually(probe, what="storage and claim are gone")

    async def clean_up(self) -> None:
        """Leaves nothing with a finalizer behind: no reconciler runs any more."""
        for resource in (GPU_STORAGES.view(Named), CLAIMS.view(Named)):
            if await self.left(resource):
                with suppress(NotFound):
                    await self.client.patch(resource, self.key, {"metadata": {"finalizers": None, "annotations": None}})
                    await self.client.delete(resource, self.key)
        await self.lose_volume()
        with suppress(NotFound):
            await self.client.request("DELETE", f"{CLASSES}/{self.storage_class}", subject="remove the class")

    async def left(self, resource: Resource[Any]) -> list[Named]:
        return (
            await self.client.list(Query(resource.view(Named), self.namespace, fields=f"metadata.name={NAME}"))
        ).items

    @property
    def _volume(self) -> str:
        return f"{self.storage_class}-volume"


def ready_of(storage: GPUStorage) -> Condition:
    ready = find_condition(storage.status.conditions, "Ready")
    assert ready is not None, storage.status
    return ready


def held_by(unit: GPUUnit) -> Document:
    """The patch that makes the unit the holder of a storage."""
    record = attached_to(Attachment(unit=unit.metadata.name, uid=unit.metadata.uid))
    return {"metadata": {"annotations": record}}
