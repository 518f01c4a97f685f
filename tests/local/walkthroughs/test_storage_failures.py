"""Why a storage cannot be used, or does not grow, is said by the object and by the API until it is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from equipment.waiting import eventually_sync
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from local.up.units import insist
from local.walkthroughs.site import OURS, Document, Site, ready_condition
from local.walkthroughs.test_failures import MERGE, NAMESPACE, Thing

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@dataclass(frozen=True)
class Storage:
    """A storage: where it, its claim and its volume are."""

    site: Site
    name: str

    @property
    def path(self) -> str:
        return f"{OURS}/namespaces/{NAMESPACE}/gpustorages/{self.name}"

    @property
    def claim(self) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{self.name}"

    @property
    def volume(self) -> str:
        return f"/api/v1/persistentvolumes/{self.site.must_get(self.claim)['spec']['volumeName']}"

    @property
    def view(self) -> str:
        return f"/gpu-storages/{self.name}?namespace={NAMESPACE}"

    def create(self, storage_class: str = "rook-ceph-block") -> None:
        body = {"name": self.name, "namespace": NAMESPACE, "size": "1Gi", "storageClassName": storage_class}
        insist(self.site.up, "POST", "/gpu-storages", body, good=(201,))

    def until(self, phase: str, reason: str, *words: str) -> Document:
        """The storage's status once object and API say this."""

        def told() -> Document:
            status: Document = self.site.must_get(self.path).get("status", {})
            assert status.get("phase") == phase, status
            ready = ready_condition({"status": status})
            assert ready["reason"] == reason, ready
            assert [word for word in words if word not in ready["message"]] == [], ready
            shown = insist(self.site.up, "GET", self.view, good=(200,))["data"]
            assert (shown["phase"], shown["reason"], shown["message"]) == (phase, reason, ready["message"])
            return status

        return eventually_sync(told, what=f"storage {self.name} is {phase}, {reason}: {words}")

    def patch(self, path: str, body: Document) -> None:
        answer = self.site.kubernetes.request("PATCH", path, body, MERGE)
        assert answer.status == 200, answer

    def delete(self) -> None:
        """Deletes the storage; whatever happened to its claim, nothing is left."""
        insist(self.site.up, "DELETE", self.view, good=(200, 202, 204))
        for path in (self.path, self.claim):
            eventually_sync(lambda path=path: self.site.get(path) is None, what=f"{path} is gone")  # type: ignore[misc]


@contextmanager
def a_class(site: Site, name: str, **fields: object) -> Iterator[str]:
    """A class whose volumes are made, for as long as the block."""
    body = {"metadata": {"name": name}, "provisioner": PROVISIONER, **fields}
    path = f"{CLASSES}/{name}"
    site.kubernetes.request("DELETE", path)
    made = site.kubernetes.request("POST", CLASSES, body)
    assert made.status == 201, made
    try:
        yield path
    finally:
        site.kubernetes.request("DELETE", path)


def test_a_storage_of_an_unknown_class_says_so_until_there_is_one(failing_site: Site) -> None:
    storage, unit = Storage(failing_site, "classless"), Thing(failing_site, "GPUUnit", "waits-for-a-class")
    storage.create("coming")
    words = "StorageClass coming does not exist"
    status = storage.until("Pending", "StorageProvisioningFailed", words)
    assert not status.get("mountable")
    unit.create(storageMounts=[{"name": storage.name, "mountPath": "/data"}])
    unit.until_waiting("StorageNotReady", f"storage {storage.name} is not ready", words)
    with a_class(failing_site, "coming"):
        storage.until("Ready", "StorageReady")
        unit.until_ready()
        unit.delete()
        storage.delete()


def test_a_storage_whose_class_cannot_expand_keeps_its_size_and_says_so_until_it_can(failing_site: Site) -> None:
    storage = Storage(failing_site, "stiff")
    with a_class(failing_site, "stiff") as path:
        storage.create("stiff")
        storage.until("Ready", "StorageReady")
        status, refused = failing_site.up.call("PUT", storage.view, {"size": "2Gi"})
        assert status == 409
        assert "storage class stiff does not allow it" in refused["error"]["message"]

        storage.patch(storage.path, {"spec": {"size": "2Gi"}})  # kubectl is not stopped by the API
        words = ("StorageClass stiff", "stays at 1Gi and does not grow to 2Gi", "allowVolumeExpansion")
        kept = storage.until("Ready", "StorageResizeFailed", *words)
        assert (kept["capacity"], kept["mountable"]) == ("1Gi", True)
        storage.patch(path, {"allowVolumeExpansion": True})
        eventually_sync(lambda: storage.until("Ready", "StorageReady")["capacity"] == "2Gi", what="the volume grows")
        storage.delete()


def test_a_storage_whose_volume_is_lost_says_so_and_can_be_deleted(failing_site: Site) -> None:
    storage = Storage(failing_site, "lost")
    storage.create()
    storage.until("Ready", "StorageReady")
    volume = storage.volume
    failing_site.kubernetes.request("DELETE", volume)
    storage.patch(volume, {"metadata": {"finalizers": None}})
    lost = storage.until("Failed", "StorageClaimLost", f"lost its volume {volume.rpartition('/')[2]}")
    assert not lost.get("mountable")
    storage.delete()


def test_a_storage_whose_claim_is_deleted_by_hand_says_so_and_gets_no_empty_one(failing_site: Site) -> None:
    storage = Storage(failing_site, "bereft")
    storage.create()
    storage.until("Ready", "StorageReady")
    volume = storage.volume
    failing_site.kubernetes.request("DELETE", storage.claim)
    kept = storage.until("Failed", "StorageClaimLost", f"deleted PersistentVolumeClaim {storage.name}", "still there")
    assert not kept.get("mountable")
    assert failing_site.get(volume) is not None, "our finalizer keeps claim and volume"
    storage.patch(storage.claim, {"metadata": {"finalizers": None}})
    storage.until("Failed", "StorageClaimLost", "was deleted, and its data with it")
    assert failing_site.get(storage.claim) is None
    storage.delete()
