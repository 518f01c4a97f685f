"""PersistentVolumeClaims as we write and read them, and the parts of StorageClasses that decide how they are filled."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.controllers.child_kinds.workloads import WorkloadCondition
from gpu_runtime.kube.resource import Resource

STORAGE = "storage"
"""The resource of a claim: bytes of the volume."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


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


CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClassView, namespaced=False)
