"""What one reconcile of a storage does, by what it finds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from equipment.builders import a_storage, a_unit, an_operation
from equipment.builders.base import LONG_AGO, Builder, new_document
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import CLAIM_FINALIZER, STORAGE_FINALIZER
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.gpustorage.resources.claim import claim
from gpu_runtime.kube import Terminal
from gpu_runtime.kube.client import document_of
from unit.controllers.table import CLOCK, SETTINGS, Row, check

NEW = a_storage("data").with_uid("storage-uid").at_generation(1).size("20Gi")
STORAGE = NEW.kept_by(STORAGE_FINALIZER)
PROTECTED = "kubernetes.io/pvc-protection"


def a_class(name: str = "rook-ceph-block", **fields: Any) -> Builder:
    document = new_document("storage.k8s.io/v1", "StorageClass", name)
    return Builder({**document, "provisioner": "rbd.csi.ceph.com", "allowVolumeExpansion": True, **fields})


CLASS = a_class()
WAITS = a_class(volumeBindingMode="WaitForFirstConsumer")
SCHEDULED = "volume.kubernetes.io/selected-node"


def a_claim(size: str = "20Gi") -> Builder:
    """The claim of the storage as an earlier reconcile made it."""
    made = document_of(CLAIMS, claim(STORAGE.object(), Quantity.parse(size), SETTINGS))
    return Builder(made).with_uid("claim-uid").status(phase="Pending")


def bound(made: Builder, capacity: str = "20Gi") -> Builder:
    return made.spec(volumeName="pv-1").status(phase="Bound", capacity={"storage": capacity})


def an_event(message: str, kind: str = "Warning", **times: str) -> Builder:
    """Of a provisioner, about the claim."""
    document = new_document("v1", "Event", message.replace(" ", "-"), "runtime-instance")
    fields = {"type": kind, "reason": "ProvisioningFailed", "message": message, "lastTimestamp": LONG_AGO, **times}
    return Builder({**document, "involvedObject": {"uid": "claim-uid"}, **fields})


def created(made: Builder, seconds_ago: float) -> Builder:
    return made.metadata(creationTimestamp=(CLOCK.now() - timedelta(seconds=seconds_ago)).isoformat())


CLAIM = a_claim()
BOUND = bound(CLAIM)
FOREIGN = Builder(new_document("v1", "PersistentVolumeClaim", "data", "runtime-instance")).with_uid("foreign-uid")
RECORDED = STORAGE.status(claimName="data")
READY = (
    STORAGE.status(
        phase="Ready",
        claimName="data",
        capacity="20Gi",
        mountable=True,
        prepare={"phase": "NotRequested"},
        accessor={"phase": "Disabled"},
        observedGeneration=1,
    )
    .condition("Ready", "True", "StorageReady", "its volume can be mounted")
    .condition("Prepared", "True", "StoragePrepareNotRequested", "the volume begins empty")
    .condition("AccessorReady", "False", "StorageAccessorDisabled", "not asked for")
)
UNIT = a_unit("demo").with_uid("unit-uid")
HELD = STORAGE.attached_to(UNIT, an_operation("op").with_uid("op-uid"))
DELETED = READY.being_deleted()

ROWS: dict[str, Row] = {
    "a new storage gets its finalizer first, then its claim, and its status can wait": Row(
        [NEW, CLASS], ["patch GPUStorage data", "create PersistentVolumeClaim data"], again=2.0
    ),
    "a storage whose claim is bound is Ready, with capacity and name of the claim": Row(
        [STORAGE, BOUND, CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageReady"),
        status={
            "claimName": "data",
            "capacity": "20Gi",
            "mountable": True,
            "prepare": {"phase": "NotRequested"},
            "accessor": {"phase": "Disabled"},
        },
    ),
    "a Ready storage causes no write": Row([READY, BOUND, CLASS]),
    "a storage that waits for its first consumer says so at once, and can be mounted": Row(
        [STORAGE, CLAIM, WAITS],
        ["status GPUStorage data"],
        *("Pending", "StorageAwaitingConsumer"),
        status={"mountable": True, "claimName": "data"},
    ),
    "a storage whose class does not exist says so, and comes back when the class changes": Row(
        [STORAGE, CLAIM],
        ["status GPUStorage data"],
        *("Pending", "StorageProvisioningFailed", "StorageClass rook-ceph-block does not exist"),
        status={"mountable": None, "claimName": "data"},
    ),
    "a claim that is young is given time": Row([STORAGE, created(CLAIM, 0.5), CLASS], again=1.5),
    "a storage that waits for its provisioner names it": Row(
        [STORAGE, created(CLAIM, 20), CLASS],
        ["status GPUStorage data"],
        *("Pending", "StoragePending", "provisioner rbd.csi.ceph.com of StorageClass rook-ceph-block has made"),
        again=10.0,
    ),
    "a provisioner that does not answer is named": Row(
        [STORAGE, created(CLAIM, 90), CLASS],
        ["status GPUStorage data"],
        *("Pending", "StoragePending", "has neither made a volume nor told why: check that it runs"),
        again=45.0,
    ),
    "a provisioner that fails is quoted, with its last words": Row(
        [
            STORAGE,
            created(CLAIM, 90),
            CLASS,
            an_event("the pool is full", lastTimestamp="2024-01-01T00:00:00Z"),
            an_event("no answer"),
            an_event("trying once more", "Normal", lastTimestamp="2025-01-01T00:00:00Z"),
        ],
        ["status GPUStorage data"],
        *("Pending", "StorageProvisioningFailed", "makes no volume: the pool is full"),
        again=45.0,
    ),
    "the events of another claim do not matter": Row(
        [STORAGE, created(CLAIM, 90).with_uid("another"), CLASS, an_event("the pool is full")],
        ["status GPUStorage data"],
        *("Pending", "StoragePending"),
        again=45.0,
    ),
    "events of a claim that waits for long are read rarely": Row(
        [STORAGE, CLAIM, CLASS],
        ["status GPUStorage data"],
        *("Pending", "StoragePending"),
        again=300.0,
    ),
    "a class without provisioner waits for a volume that somebody makes": Row(
        [STORAGE, CLAIM, a_class(provisioner="kubernetes.io/no-provisioner")],
        ["status GPUStorage data"],
        *("Pending", "StoragePending", "waiting for a PersistentVolume of that class"),
    ),
    "a volume that cannot be made for its first consumer says so and stays mountable": Row(
        [STORAGE, CLAIM.annotated({SCHEDULED: "n1"}), WAITS, an_event("n1 has no space")],
        ["status GPUStorage data"],
        *("Pending", "StorageProvisioningFailed", "n1 has no space"),
        status={"mountable": True},
        again=300.0,
    ),
    "a claim that lost its volume is Failed and cannot be mounted": Row(
        [READY, BOUND.status(phase="Lost", capacity={}), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost", "PersistentVolumeClaim data lost its volume pv-1"),
        status={"mountable": None, "capacity": None},
        events=["Warning StorageClaimLost"],
    ),
    "a claim that somebody deletes is Failed, and its data is still there": Row(
        [READY, BOUND.being_deleted(), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost", "its data is still there"),
        status={"mountable": None, "capacity": "20Gi"},
        events=["Warning StorageClaimLost"],
    ),
    "a storage shows who holds it": Row(
        [HELD, BOUND, CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageReady"),
        status={"attachedTo": {"unit": "demo", "uid": "unit-uid", "operation": "op-uid"}},
    ),
    "a foreign claim of the storage's name is left alone": Row(
        [STORAGE, FOREIGN, CLASS],
        ["create PersistentVolumeClaim data", "status GPUStorage data"],
        *("Failed", "NameConflict", "PersistentVolumeClaim runtime-instance/data exists and is not ours"),
        status={"claimName": None, "mountable": None},
        events=["Warning NameConflict"],
        again=15.0,
    ),
    "a size that is no amount waits for the spec to change": Row(
        [STORAGE.size("lots"), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageInvalidSpec", "spec.size: 'lots' is not a quantity"),
        events=["Warning StorageInvalidSpec"],
        raises=Terminal,
    ),
    "a claim that is gone is never made again": Row(
        [RECORDED, CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost", "PersistentVolumeClaim data was deleted, and its data with it"),
        status={"claimName": "data", "mountable": None},
        events=["Warning StorageClaimLost"],
    ),
    "a storage that is being deleted takes its claim along": Row(
        [DELETED, BOUND],
        ["patch PersistentVolumeClaim data", "delete PersistentVolumeClaim data", "patch GPUStorage data"],
    ),
    "a storage that is being deleted waits until nobody uses its claim": Row(
        [DELETED, BOUND.kept_by(PROTECTED)],
        ["patch PersistentVolumeClaim data", "delete PersistentVolumeClaim data", "status GPUStorage data"],
        *("Pending", "StorageDeleting", f"PersistentVolumeClaim data (kept by {PROTECTED}) is gone"),
    ),
    "a storage that is being deleted while it is held keeps its data": Row(
        [DELETED.attached_to(UNIT, an_operation("op").with_uid("op-uid")), BOUND],
        ["status GPUStorage data"],
        *("Pending", "StorageDeleting", "waiting until unit demo no longer holds it"),
        status={"mountable": True},
    ),
    "a deleted storage without a claim goes": Row([DELETED], ["patch GPUStorage data"]),
    "a deleted storage leaves a foreign claim alone": Row([DELETED, FOREIGN], ["patch GPUStorage data"]),
    "a deleted storage that waits for the finalizer of somebody else is left alone": Row(
        [NEW.kept_by("example.org/x").being_deleted(), BOUND]
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_reconcile(row: Row) -> None:
    await check("gpustorage", "GPUStorage", row)


def test_the_claim_has_no_owner_reference_and_a_finalizer() -> None:
    made = CLAIM.document()["metadata"]
    assert "ownerReferences" not in made
    assert made["finalizers"] == [CLAIM_FINALIZER]
