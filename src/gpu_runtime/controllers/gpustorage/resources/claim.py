"""The PersistentVolumeClaim that holds the data of a storage. It has the storage's name."""

from __future__ import annotations

from typing import Any

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER, STORAGE_NAME, STORAGE_UID
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.labels import GPU_STORAGE_APP
from gpu_runtime.api.v1alpha1.labels import STORAGE as STORAGE_LABEL
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds.volumes import STORAGE, ClaimResources, ClaimSpec, PersistentVolumeClaim
from gpu_runtime.controllers.labels import child_labels
from gpu_runtime.kube.ownership import ByAnnotation

OWNER = ByAnnotation(STORAGE_NAME, STORAGE_UID)
"""A claim has no owner reference: a foreground deletion of its storage would delete it while it is still mounted."""


def wanted_size(storage: GPUStorage) -> Quantity:
    """The size in the spec. Raises ValueError with the field's path: specs written with kubectl may hold any text."""
    try:
        size = Quantity.parse(storage.spec.size)
    except ValueError as error:
        raise ValueError(f"spec.size: {error}") from error
    if size.nanos <= 0:
        raise ValueError(f"spec.size: {storage.spec.size!r} is not a size: write an amount above 0, such as 20Gi")
    return size


def new_claim(storage: GPUStorage, size: Quantity, settings: ControllerManagerSettings) -> PersistentVolumeClaim:
    """The claim that is created for a storage."""
    spec = ClaimSpec(
        accessModes=[settings.storage.accessMode],
        resources=ClaimResources(requests={STORAGE: str(size)}),
        storageClassName=storage.spec.storageClassName,
    )
    return PersistentVolumeClaim(metadata=_metadata(storage), spec=spec)


def repaired_claim(storage: GPUStorage, live: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim with the metadata that it should have. Its spec stays: the server rejects changes other than growth."""
    return PersistentVolumeClaim(metadata=_metadata(storage), spec=live.spec)


def growth(size: Quantity) -> dict[str, Any]:
    """The patch of the spec that asks for `size`."""
    return {"resources": {"requests": {STORAGE: str(size)}}}


def _metadata(storage: GPUStorage) -> ObjectMeta:
    meta = storage.metadata
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        labels=child_labels(GPU_STORAGE_APP, STORAGE_LABEL, meta.name),
        annotations=OWNER.annotations(meta),
        finalizers=[CLAIM_FINALIZER],
    )
