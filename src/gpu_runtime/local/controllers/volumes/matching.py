"""Which volume a claim gets, and what a volume is made like. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.controllers.selectors import matches
from gpu_runtime.local.kinds.storage import Claim, PersistentVolume, StorageClass

PROVISIONER = "gpu-runtime/local-directory"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
"""On volumes that were provisioned: one that is deleted by hand still goes with its folder, after its claim."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONER_NOTES = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")


def volume_name(claim: Claim) -> str:
    return f"pvc-{claim.metadata.uid}"


def belongs_to(volume: PersistentVolume, claim: Claim) -> bool:
    """Whether the volume is kept for this very claim: by uid, or by name where a person wrote it."""
    reference = volume.spec.claimRef
    if reference is None:
        return False
    same = (reference.namespace, reference.name) == claim.metadata.key
    return same and reference.uid in {"", claim.metadata.uid}


def find_volume(claim: Claim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume that is kept for the claim, else the smallest free one that serves it."""
    candidates = [one for one in volumes if one.metadata.deletionTimestamp is None]
    if claim.spec.volumeName:
        named = (one for one in candidates if one.metadata.name == claim.spec.volumeName)
        return next((one for one in named if one.spec.claimRef is None or belongs_to(one, claim)), None)
    kept = next((one for one in candidates if belongs_to(one, claim)), None)
    if kept is not None:
        return kept
    serving = [one for one in candidates if one.spec.claimRef is None and _serves(one, claim)]
    return min(serving, key=lambda one: (_capacity(one), one.metadata.name), default=None)


def _serves(volume: PersistentVolume, claim: Claim) -> bool:
    return (
        volume.spec.storageClassName == claim.class_name
        and volume.spec.volumeMode == claim.spec.volumeMode
        and set(claim.spec.accessModes) <= set(volume.spec.accessModes)
        and _capacity(volume) >= Quantity.parse(claim.requested)
        and (claim.spec.selector is None or matches(claim.spec.selector, volume.metadata.labels))
        and volume.status.phase in {"", "Available"}
    )


def _capacity(volume: PersistentVolume) -> Quantity:
    return Quantity.parse(volume.spec.capacity.get("storage", "0"))


def reference_to(claim: Claim) -> dict[str, str]:
    meta = claim.metadata
    named = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name}
    return {**named, "uid": meta.uid, "resourceVersion": meta.resourceVersion}


def new_volume(claim: Claim, storage_class: StorageClass, path: str) -> dict[str, Any]:
    """The volume of a folder that was made for the claim."""
    return {
        "metadata": {
            "name": volume_name(claim),
            "annotations": {PROVISIONED_BY: storage_class.provisioner},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "capacity": {"storage": claim.requested},
            "accessModes": claim.spec.accessModes,
            "persistentVolumeReclaimPolicy": storage_class.reclaimPolicy,
            "storageClassName": storage_class.metadata.name,
            "volumeMode": claim.spec.volumeMode,
            "hostPath": {"path": path, "type": ""},
            "claimRef": reference_to(claim),
        },
    }
