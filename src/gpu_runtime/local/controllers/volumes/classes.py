"""The storage classes that manifests written for a cluster expect to find."""

from __future__ import annotations

from typing import Any

from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import AlreadyExists
from gpu_runtime.local.controllers.volumes.matching import DEFAULT_CLASS, PROVISIONER
from gpu_runtime.local.kinds.storage import STORAGE_CLASSES, WAIT_FOR_FIRST_CONSUMER


def storage_class(name: str, mode: str, *, default: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {DEFAULT_CLASS: "true"} if default else {}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        "allowVolumeExpansion": True,
    }


CLASSES = (
    storage_class("rook-ceph-block", "Immediate"),  # the product's default: its manifests move unchanged
    storage_class("standard", "Immediate", default=True),
    storage_class("local", WAIT_FOR_FIRST_CONSUMER),
)


async def ensure_classes(client: Client) -> None:
    """Creates what is missing; what is there stays as it is."""
    for each in CLASSES:
        try:
            await client.create(STORAGE_CLASSES, each)
        except AlreadyExists:
            continue
