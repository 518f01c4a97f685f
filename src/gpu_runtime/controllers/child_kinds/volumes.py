"""PersistentVolumeClaims as we write and read them, and the parts of StorageClasses and Events that explain them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.controllers.child_kinds.workloads import WorkloadCondition
from gpu_runtime.kube.resource import Resource

STORAGE = "storage"
"""The resource of a claim: bytes of the volume."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim that waited for its first consumer: where that pod runs. From then on a volume is made."""


class ClaimResources(Struct, frozen=True, omit_defaults=True, kw_only=True):
    requests: dict[str, str] = {}


class ClaimSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    accessModes: list[str] = []
    resources: ClaimResources = ClaimResources()
    storageClassName: str | None = None
    volumeName: str = ""


class ClaimStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    capacity: dict[str, str] = {}
    conditions: list[WorkloadCondition] = []


class PersistentVolumeClaim(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        return self.status.phase == "Bound"

    @property
    def is_being_deleted(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    @property
    def requested(self) -> Quantity:
        """The size that the claim asks for."""
        return Quantity.parse(self.spec.resources.requests.get(STORAGE, "0"))

    @property
    def capacity(self) -> Quantity:
        """The size that its volume has; 0 while there is none."""
        return Quantity.parse(self.status.capacity.get(STORAGE, "0"))


class StorageClassView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A StorageClass as the cache keeps it. Never written back."""

    metadata: ObjectMeta
    provisioner: str = ""
    volumeBindingMode: str = "Immediate"
    allowVolumeExpansion: bool = False


class EventView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An Event about a claim. Provisioners tell there why they make no volume. Never written back."""

    metadata: ObjectMeta
    type: str = ""
    reason: str = ""
    message: str = ""
    lastTimestamp: datetime | None = None
    eventTime: datetime | None = None

    @property
    def last_seen(self) -> float:
        seen = self.lastTimestamp or self.eventTime or self.metadata.creationTimestamp
        return seen.timestamp() if seen is not None else 0.0


CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClassView, namespaced=False)
CLAIM_EVENTS = Resource("", "v1", "Event", "events", EventView)
