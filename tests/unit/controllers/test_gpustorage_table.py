"""What one reconcile of a storage does, by what it finds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from equipment.builders import a_storage, a_unit, an_operation
from equipment.builders.base import LONG_AGO, Builder, new_document
from equipment.memory_api import refused
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.annotations import (
    CLAIM_FINALIZER,
    OPERATION_UID,
    STORAGE_FINALIZER,
    STORAGE_NAME,
    STORAGE_UID,
)
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.gpustorage.resources.claim import new_claim
from gpu_runtime.kube import Conflict, Forbidden, RetryAfter, Terminal
from gpu_runtime.kube.client import document_of
from unit.controllers.table import CLOCK, SETTINGS, Row, World, check

NEW = a_storage("data").with_uid("storage-uid").at_generation(1).size("20Gi")
STORAGE = NEW.kept_by(STORAGE_FINALIZER)
KEY = Key("runtime-instance", "data")
PROTECTED = "kubernetes.io/pvc-protection"


def a_class(name: str = "rook-ceph-block", **fields: Any) -> Builder:
    document = new_document("storage.k8s.io/v1", "StorageClass", name)
    return Builder({**document, "provisioner": "rbd.csi.ceph.com", "allowVolumeExpansion": True, **fields})


CLASS = a_class()
WAITS = a_class(volumeBindingMode="WaitForFirstConsumer")
SCHEDULED = "volume.kubernetes.io/selected-node"


def a_claim(size: str = "20Gi") -> Builder:
    """The claim of the storage as an earlier reconcile made it."""
    made = document_of(CLAIMS, new_claim(STORAGE.object(), Quantity.parse(size), SETTINGS))
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
UNIT = a_unit("demo").with_uid("unit-uid").mounting("data")
HELD = STORAGE.attached_to(UNIT, an_operation("op").with_uid("op-uid"))
DELETED = READY.being_deleted()
WANTS_MORE = READY.size("40Gi").at_generation(2)
FIXED = a_class(allowVolumeExpansion=False)
ASKED = bound(a_claim("40Gi"))
DENIED = refused(Forbidden, 403, "only dynamically provisioned pvc can be resized")


def resizing(kind: str, message: str = "") -> Builder:
    """The claim while its volume grows."""
    return ASKED.status(conditions=[{"type": kind, "status": "True", "message": message}])


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
        *("Pending", "StoragePending", "has made no volume and reported no error: check that it runs"),
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
        *(
            "Failed",
            "StorageClaimLost",
            "PersistentVolumeClaim data lost its volume pv-1: bring that PersistentVolume back",
        ),
        status={"mountable": None, "capacity": None},
        events=["Warning StorageClaimLost"],
    ),
    "a claim that somebody deletes is Failed, and its data is still there": Row(
        [READY, BOUND.being_deleted(), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost", "its data is still there until the storage is deleted"),
        status={"mountable": None, "capacity": "20Gi"},
        events=["Warning StorageClaimLost"],
    ),
    "a storage that wants more asks for it, and stays mountable meanwhile": Row(
        [WANTS_MORE, BOUND, CLASS],
        ["patch PersistentVolumeClaim data", "status GPUStorage data"],
        *("Ready", "StorageResizing", "its volume grows from 20Gi to 40Gi"),
        status={"capacity": "20Gi", "mountable": True},
    ),
    "a volume that grows shows what it waits for": Row(
        [WANTS_MORE, resizing("FileSystemResizePending", "waiting for a pod to start"), CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageResizing", "grows from 20Gi to 40Gi; waiting for a pod to start"),
    ),
    "a volume whose growth fails at its driver says so": Row(
        [WANTS_MORE, resizing("ControllerResizeError", "the pool is full"), CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageResizeFailed", "grows from 20Gi to 40Gi; the pool is full"),
        status={"mountable": True},
    ),
    "a volume that has grown shows its new capacity": Row(
        [WANTS_MORE, bound(a_claim("40Gi"), "40Gi"), CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageReady"),
        status={"capacity": "40Gi"},
    ),
    "a size that is the same in other words causes no write": Row([READY.size("20480Mi"), BOUND, CLASS]),
    "a class that cannot expand is not even asked": Row(
        [WANTS_MORE, BOUND, FIXED],
        ["status GPUStorage data"],
        *("Ready", "StorageResizeFailed", "stays at 20Gi and does not grow to 40Gi: StorageClass rook-ceph-block"),
        status={"capacity": "20Gi", "mountable": True},
    ),
    "a growth that the server refuses is tried again after minutes": Row(
        [WANTS_MORE, BOUND, CLASS],
        ["patch PersistentVolumeClaim data", "status GPUStorage data"],
        *("Ready", "StorageResizeFailed", "only dynamically provisioned pvc can be resized"),
        status={"capacity": "20Gi", "mountable": True},
        failures={"patch PersistentVolumeClaim data": DENIED},
        again=300.0,
    ),
    "a growth that was refused before a restart is not asked for at once": Row(
        [
            WANTS_MORE.status(observedGeneration=2)
            .condition("Prepared", "True", "StoragePrepareNotRequested", "the volume begins empty")
            .condition("AccessorReady", "False", "StorageAccessorDisabled", "not asked for")
            .condition("Ready", "True", "StorageResizeFailed", "refused"),
            BOUND,
            CLASS,
        ],
        again=300.0,
    ),
    "a claim grows once it is bound, because the server takes no change before": Row(
        [STORAGE.size("40Gi"), created(CLAIM, 0.5), CLASS], again=1.5
    ),
    "a storage that wants less is told so, keeps its volume and stays mountable": Row(
        [READY.size("10Gi").at_generation(2), BOUND, CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageInvalidSpec", "spec.size: 10Gi is less than 20Gi"),
        status={"capacity": "20Gi", "mountable": True},
        events=["Warning StorageInvalidSpec"],
        raises=Terminal,
    ),
    "a size that became nonsense leaves the claim as it is": Row(
        [READY.size("-1Gi").at_generation(2), BOUND, CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageInvalidSpec", "spec.size: '-1Gi' is not a size: write an amount above 0"),
        status={"capacity": "20Gi", "mountable": True},
        events=["Warning StorageInvalidSpec"],
        raises=Terminal,
    ),
    "a size of nothing gets no claim": Row(
        [STORAGE.size("0"), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageInvalidSpec", "spec.size: '0' is not a size"),
        status={"claimName": None},
        events=["Warning StorageInvalidSpec"],
        raises=Terminal,
    ),
    "a claim that lost our finalizer gets it back, also while the size is nonsense": Row(
        [READY.size("lots").at_generation(2), BOUND.metadata(finalizers=[PROTECTED]), CLASS],
        ["patch PersistentVolumeClaim data", "status GPUStorage data"],
        *("Failed", "StorageInvalidSpec"),
        events=["Normal DriftRepaired: PersistentVolumeClaim data was changed", "Warning StorageInvalidSpec"],
        raises=Terminal,
    ),
    "a claim that lost our label is found all the same, and gets it back": Row(
        [READY, BOUND.metadata(labels={}), CLASS],
        ["patch PersistentVolumeClaim data"],
        events=["Normal DriftRepaired: PersistentVolumeClaim data was changed by somebody else and was put back"],
    ),
    "a claim that no longer names the storage is left alone, and nothing replaces it": Row(
        [READY, BOUND.annotated({STORAGE_UID: "another"}), CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost", "PersistentVolumeClaim data no longer belongs to this storage"),
        status={"mountable": None},
        events=["Warning StorageClaimLost"],
        again=15.0,
    ),
    "a claim that is created in vain is reported and tried again": Row(
        [STORAGE, CLASS],
        ["create PersistentVolumeClaim data", "status GPUStorage data"],
        *("Failed", "StoragePVCSyncFailed", "exceeded quota"),
        events=["Warning StoragePVCSyncFailed"],
        raises=Forbidden,
        failures={"create PersistentVolumeClaim data": refused(Forbidden, 403, "exceeded quota")},
    ),
    "a storage that recovers says so": Row(
        [READY.status(phase="Failed").condition("Ready", "False", "StorageInvalidSpec", "spec.size"), BOUND, CLASS],
        ["status GPUStorage data"],
        *("Ready", "StorageReady"),
        events=["Normal StorageReady"],
    ),
    "a storage shows who holds it": Row(
        [HELD, UNIT, BOUND, CLASS],
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
        *("Failed", "StorageClaimLost", "was deleted, and its data with it: delete the storage and create it again"),
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
        again=15.0,
    ),
    "a storage that is being deleted while it is held keeps its data": Row(
        [DELETED.attached_to(UNIT, an_operation("op").with_uid("op-uid")), UNIT, BOUND],
        ["status GPUStorage data"],
        *("Pending", "StorageDeleting", "waiting until unit demo no longer holds it"),
        status={"mountable": True},
    ),
    "a storage that is being deleted while it is held says that its claim was deleted too": Row(
        [DELETED.attached_to(UNIT, an_operation("op").with_uid("op-uid")), UNIT, BOUND.being_deleted()],
        ["status GPUStorage data"],
        *("Pending", "StorageDeleting", "its PersistentVolumeClaim was deleted too: no new pod can mount it"),
        status={"mountable": None},
    ),
    "a claim that was never bound and whose storage is gone goes": Row(
        [CLAIM], ["patch PersistentVolumeClaim data", "delete PersistentVolumeClaim data"], gone=KEY
    ),
    "a claim that may hold data stays, though its storage is gone": Row([BOUND], gone=KEY),
    "a claim that is being bound stays, though its storage is gone": Row([CLAIM.spec(volumeName="pv-1")], gone=KEY),
    "a claim that lost its volume stays, though its storage is gone": Row([CLAIM.status(phase="Lost")], gone=KEY),
    "a claim without storage that somebody deletes is let go": Row(
        [BOUND.being_deleted()], ["patch PersistentVolumeClaim data"], gone=KEY
    ),
    "a claim that a person copied from one of ours stays": Row([CLAIM.annotated({STORAGE_NAME: "another"})], gone=KEY),
    "a claim that never was ours stays": Row([FOREIGN], gone=KEY),
    "a new storage waits until the empty claim of its predecessor is gone": Row(
        [STORAGE.with_uid("new-uid"), CLAIM, CLASS],
        ["patch PersistentVolumeClaim data", "delete PersistentVolumeClaim data"],
    ),
    "a new storage leaves the data of its predecessor alone": Row(
        [STORAGE.with_uid("new-uid"), BOUND, CLASS],
        ["create PersistentVolumeClaim data", "status GPUStorage data"],
        *("Failed", "NameConflict", "it belongs to data with UID storage-uid"),
        events=["Warning NameConflict"],
        again=15.0,
    ),
    "a deleted storage without a claim goes": Row([DELETED], ["patch GPUStorage data"]),
    "a deleted storage leaves a foreign claim alone": Row([DELETED, FOREIGN], ["patch GPUStorage data"]),
    "a deleted storage that waits for the finalizer of somebody else is left alone": Row(
        [NEW.kept_by("example.org/x").being_deleted(), BOUND]
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@mutant("controllers/gpustorage/reconcile.py", "storage = await self.finalizer.add(storage)  #", "pass  #")
@mutant("controllers/gpustorage/reconcile.py", "if await self.orphans.release(key):", "if False:")
@mutant(
    "controllers/gpustorage/claim.py",
    "if found is None and storage.status.claimName:\n            raise",
    "if 0:\n            raise",
)
@mutant("controllers/gpustorage/claim.py", "if found is not None and found.is_being_deleted:", "if False:")
@mutant(
    "controllers/gpustorage/deletion.py",
    "if (holder := attachment_of(storage.metadata)) is not None:",
    "if holder := '':",
)
@mutant(
    "controllers/gpustorage/deletion.py", "if not self.children.owns(storage.metadata, live.metadata):", "if False:"
)
@mutant("controllers/gpustorage/orphans.py", "if _may_hold_data(claim):", "if False:")
@mutant("controllers/gpustorage/orphans.py", "return live.metadata.uid != owner.uid", "return False")
@mutant("controllers/gpustorage/orphans.py", "copied or bool(claim.spec.volumeName)", "copied")
@mutant("controllers/gpustorage/resize.py", "if size < claim.requested:", "if False:")
@mutant(
    "controllers/gpustorage/readiness.py",
    "if self.claim is None or self.claim.is_being_deleted:",
    "if self.claim is None:",
)
@mutant("controllers/gpustorage/provisioning.py", 'if event.type == "Warning"]', "]")
async def test_reconcile(row: Row) -> None:
    await check("gpustorage", "GPUStorage", row)


async def grow_in_vain(world: World, times: int = 1) -> int:
    """Reconciles `times` and returns how often the server was asked to grow the claim."""
    for _ in range(times):
        world.api.fill(world.manager)
        await world.reconcile("gpustorage", KEY)
    return world.api.writes.count("patch PersistentVolumeClaim data")


@mutant("controllers/gpustorage/resize.py", "return known if same and", "return known if False and")
async def test_a_refused_growth_is_not_asked_for_again_in_every_reconcile() -> None:
    world = World(Row([WANTS_MORE, BOUND, CLASS], failures={"patch PersistentVolumeClaim data": DENIED}))
    assert await grow_in_vain(world, times=5) == 1


@mutant("controllers/gpustorage/resize.py", "return known if same and", "return known if")
async def test_another_size_is_asked_for_at_once_after_a_refusal() -> None:
    world = World(Row([WANTS_MORE, BOUND, CLASS], failures={"patch PersistentVolumeClaim data": DENIED}))
    await grow_in_vain(world)
    world.api.put(WANTS_MORE.size("60Gi").at_generation(3))
    assert await grow_in_vain(world) == 2


async def test_a_class_that_begins_to_expand_lets_its_storages_grow_at_once() -> None:
    world = World(Row([WANTS_MORE, BOUND, FIXED]))
    assert await grow_in_vain(world, times=2) == 0
    world.api.put(CLASS)
    assert await grow_in_vain(world) == 1
    grown = world.api.find("PersistentVolumeClaim", "data")
    assert grown is not None
    assert grown["spec"]["resources"]["requests"] == {"storage": "40Gi"}


@mutant("controllers/gpustorage/claim.py", "or live.status.claimName:", "or False:")
async def test_a_cache_that_is_behind_makes_no_second_claim() -> None:
    world = World(Row([STORAGE, CLASS]))
    world.api.put(RECORDED)  # another replica made the claim, and somebody deleted it
    with pytest.raises(RetryAfter):
        await world.reconcile("gpustorage", KEY)
    assert world.api.writes == []


@mutant("controllers/gpustorage/claim.py", "live.metadata.uid != storage.metadata.uid or ", "")
async def test_a_storage_that_was_replaced_by_another_of_its_name_gets_no_claim() -> None:
    world = World(Row([STORAGE, CLASS]))
    world.api.put(NEW.with_uid("later-uid"))
    with pytest.raises(RetryAfter):
        await world.reconcile("gpustorage", KEY)
    assert world.api.of_kind("PersistentVolumeClaim") == []


@mutant(
    "controllers/gpustorage/resize.py",
    '{"metadata": identity(claim.metadata), "spec": growth(size)}',
    '{"spec": growth(size)}',
)
async def test_a_claim_that_has_changed_since_it_was_seen_is_not_made_smaller() -> None:
    world = World(Row([WANTS_MORE, BOUND, CLASS]))
    world.api.put(bound(a_claim("80Gi")))  # the caches do not show it
    with pytest.raises(Conflict):
        await world.reconcile("gpustorage", KEY)


@mutant("controllers/gpustorage/resize.py", "if ready.observedGeneration != storage.metadata.generation:", "if False:")
async def test_a_refusal_of_an_earlier_size_does_not_count_after_a_restart() -> None:
    refused_before = READY.condition("Ready", "True", "StorageResizeFailed", "not to 30Gi").size("40Gi")
    world = World(Row([refused_before.at_generation(2), BOUND, CLASS]))
    assert await grow_in_vain(world) == 1


@mutant("controllers/gpustorage/deletion.py", "            attachedTo=attachment_of(storage.metadata),\n", "")
async def test_a_storage_that_is_being_deleted_shows_its_holder() -> None:
    deleted = DELETED.attached_to(UNIT, an_operation("op").with_uid("op-uid"))
    world = World(Row([deleted, BOUND, CLASS, UNIT.annotated({OPERATION_UID: "op-uid"})]))
    await world.reconcile("gpustorage", KEY)
    found = world.api.find("GPUStorage", "data")
    assert found is not None
    assert found["status"]["attachedTo"]["unit"] == "demo"


@mutant("controllers/gpustorage/registration.py", "        mapped(caches.units.store, held_by_unit),\n", "")
@mutant("controllers/gpustorage/registration.py", "        mapped(caches.classes, of_class),\n", "")
async def test_a_unit_that_holds_a_storage_and_its_class_bring_it_back() -> None:
    world = World(Row([HELD, BOUND, CLASS, UNIT]))
    sources = world.controllers["gpustorage"]._sources
    for kind in ("GPUUnit", "StorageClassView"):
        changed = [each for source in sources for each in source.store if type(each).__name__ == kind]
        woken = {key for source in sources for each in source.store for key in source.keys(each) if each in changed}
        assert woken == {KEY}, kind


async def test_a_claim_without_storage_that_was_bound_after_the_look_stays() -> None:
    world = World(Row([CLAIM], gone=KEY))
    world.api.put(BOUND)
    with pytest.raises(Conflict):
        await world.reconcile("gpustorage", KEY)
    assert world.api.find("PersistentVolumeClaim", "data") is not None


@mutant("controllers/gpustorage/orphans.py", "return live.metadata.uid != owner.uid", "return True")
async def test_a_storage_that_the_cache_does_not_show_yet_keeps_its_claim() -> None:
    world = World(Row([CLAIM], gone=KEY))
    world.api.put(STORAGE)
    await world.reconcile("gpustorage", KEY)
    assert world.api.writes == []


def test_the_claim_has_no_owner_reference_and_a_finalizer() -> None:
    made = CLAIM.document()["metadata"]
    assert "ownerReferences" not in made
    assert made["finalizers"] == [CLAIM_FINALIZER]
