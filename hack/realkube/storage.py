"""Volumes of a cluster on one machine: folders, made by Kubernetes' own provisioner for development."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from realkube.api import Access
from realkube.errors import RealKubeError
from realkube.process import must_run

CONTROLLER_FLAG = "--enable-hostpath-provisioner=true"
FIXED_PLACE = Path("/tmp/hostpath_pv")  # the provisioner knows no other
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "rook-ceph-block"},
    "provisioner": "kubernetes.io/host-path",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}


def keep_volumes_in(folder: Path) -> None:
    """Put the folder where the provisioner makes its volumes, for the processes of this mount namespace only."""
    folder.mkdir()
    FIXED_PLACE.mkdir(exist_ok=True)
    must_run("mount", "--bind", str(folder), str(FIXED_PLACE))


def leave_no_mount_point() -> None:
    """Remove the empty folder that the mount namespace needed to mount on."""
    with suppress(OSError):  # another cluster uses it, or it was never there
        FIXED_PLACE.rmdir()


def add_storage_class(admin: Access) -> None:
    """Serve the product's default storage class, so that its manifests need no change here."""
    made = admin.request("POST", "/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS)
    if made.status != 201:
        raise RealKubeError(f"no storage class: {made.body}")
