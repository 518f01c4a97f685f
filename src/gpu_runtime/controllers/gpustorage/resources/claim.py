"""The PersistentVolumeClaim that holds the data of a storage. It has the storage's name."""

from __future__ import annotations

from msgspec import structs

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
    """The size that the spec asks for. ValueError names the field: specs written with kubectl may hold any text."""
    try:
        size = Quantity.parse(storage.spec.size, negative=False)
    except ValueError as error:
        raise ValueError(f"spec.size: {error}") from error
    if not size:
        raise ValueError(f"spec.size: {storage.spec.size!r} is nothing: write an amount above 0, such as 20Gi")
    return size


def claim(
    storage: GPUStorage, size: Quantity, settings: ControllerManagerSettings, live: PersistentVolumeClaim | None = None
) -> PersistentVolumeClaim:
    """The claim as it should be. Of a claim that is there, `live`, only the metadata is repaired.

    The server lets nobody change the spec of a claim, except that a bound one can grow; `grown` is that change.
    """
    meta = storage.metadata
    new = ClaimSpec(
        accessModes=[settings.storage.accessMode],
        resources=ClaimResources(requests={STORAGE: str(size)}),
        storageClassName=storage.spec.storageClassName,
    )
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=child_labels(GPU_STORAGE_APP, STORAGE_LABEL, meta.name),
            annotations=OWNER.annotations(meta),
            finalizers=[CLAIM_FINALIZER],
        ),
        spec=live.spec if live is not None else new,
    )


def grown(live: PersistentVolumeClaim, size: Quantity) -> PersistentVolumeClaim:
    """The claim with a request for `size`."""
    resources = ClaimResources(requests={**live.spec.resources.requests, STORAGE: str(size)})
    return structs.replace(live, spec=structs.replace(live.spec, resources=resources))
