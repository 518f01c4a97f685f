"""Growing and recovering storages: decided on one version, written to that version alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageStatus, PrepareStatus
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.rest import errors as rest
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import UpdateGPUStorage
from gpu_runtime.rest.views import StorageView
from gpu_runtime.service.storages.storage_class import STORAGE_CLASSES, StorageClass
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory
from unit.service.replica import Replica
from unit.service.storage_world import (
    READY,
    a_storage,
    a_world,
    deleting,
    held_by,
    run_on,
    stopped_before,
    stored,
    update,
    with_storage,
)

UNIT = Attachment(unit="demo", uid="u", since=datetime(2026, 1, 2, tzinfo=UTC))


# Growing


def test_a_storage_grows() -> None:
    memory = with_storage()
    view = update(memory, size="40Gi")
    assert (view.size, view.capacity, view.phase) == ("40Gi", "20Gi", "Progressing")
    assert stored(memory).spec.size == "40Gi"


@pytest.mark.parametrize(
    ("spec", "capacity", "asked", "words"),
    [
        ("20Gi", "20Gi", "10Gi", "10Gi is smaller than 20Gi, its size"),
        ("20Gi", "", "20479Mi", "20479Mi is smaller than 20Gi, its size"),
        ("40Gi", "20Gi", "30Gi", "30Gi is smaller than 40Gi, its size"),  # it grows just now
        ("10Gi", "20Gi", "15Gi", "15Gi is smaller than 20Gi, the capacity of its volume"),  # kubectl reduced the spec
        ("lots", "20Gi", "15Gi", "15Gi is smaller than 20Gi, the capacity of its volume"),
    ],
)
def test_a_storage_never_shrinks(spec: str, capacity: str, asked: str, words: str) -> None:
    memory = with_storage(a_storage(size=spec, status=replace(READY, capacity=capacity)))
    before = memory.version
    with pytest.raises(rest.InvalidRequest, match=f"size: {words}: a storage can grow, never shrink"):
        update(memory, size=asked)
    assert memory.version == before


@pytest.mark.parametrize(
    ("spec", "capacity", "asked"),
    [("1500Mi", "2Gi", "1500Mi"), ("20Gi", "20Gi", "20480Mi"), ("10Gi", "20Gi", "10Gi")],
)
@mutant("service/storages/changes.py", "Quantity.parse(change.size) != amount_of(storage.spec.size)", "True")
def test_the_size_that_it_has_already_is_no_change(spec: str, capacity: str, asked: str) -> None:
    memory = with_storage(a_storage(size=spec, status=replace(READY, capacity=capacity)))
    before = memory.version
    assert update(memory, size=asked).size == spec
    assert memory.version == before


@pytest.mark.parametrize("spec", ["10Gi", "lots"])
def test_a_size_that_kubectl_broke_is_repaired(spec: str) -> None:
    memory = with_storage(a_storage(size=spec))
    assert update(memory, size="20Gi").size == "20Gi"


@pytest.mark.parametrize(
    ("asked", "words"), [("17Ti", "is more than 16Ti"), ("0", "must be more than 0"), ("x", "is not a quantity")]
)
def test_a_size_that_no_volume_can_have_is_refused(asked: str, words: str) -> None:
    memory = with_storage()
    before = memory.version
    with pytest.raises(rest.InvalidRequest, match=words):
        update(memory, size=asked)
    assert memory.version == before


def test_a_storage_of_a_class_that_cannot_expand_is_not_promised_a_larger_volume() -> None:
    memory = with_storage(a_storage(storageClassName="fixed"))
    before = memory.version
    with pytest.raises(rest.Clash, match="its storage class fixed does not exist"):
        update(memory, size="40Gi")
    memory.put(STORAGE_CLASSES, StorageClass(metadata=ObjectMeta(name="fixed")))
    with pytest.raises(rest.Clash, match="its storage class fixed does not allow it"):
        update(memory, size="40Gi")
    assert memory.version == before + 1
    assert stored(memory).spec.size == "20Gi"


def test_the_accessor_is_turned_on_and_off_without_a_look_at_the_class() -> None:
    memory = with_storage(a_storage(storageClassName="gone"))
    on = update(memory, accessor={"enabled": True})
    assert on.accessor is not None
    assert on.accessor.phase == "Pending"
    assert update(memory, accessor={"enabled": True}).resourceVersion == on.resourceVersion
    assert update(memory).resourceVersion == on.resourceVersion
    assert update(memory, accessor=None).accessor is None
    assert not stored(memory).spec.accessor.enabled


def test_if_match_names_the_version_to_change() -> None:
    memory = with_storage()
    version = stored(memory).metadata.resourceVersion
    with pytest.raises(rest.Clash, match=f"it is at version {version}, not 1"):
        update(memory, "1", size="40Gi")
    with pytest.raises(rest.Clash, match=f"it is at version {version}, not 1"):
        finish(Replica(memory).storages.delete(None, "data", "1"))
    assert update(memory, version, size="40Gi").size == "40Gi"


def test_a_change_is_decided_again_when_the_storage_changed_in_between() -> None:
    memory = with_storage()
    change = UpdateGPUStorage(size="30Gi")
    late = stopped_before(Replica(memory).storages.update(None, "data", change), "patch GPUStorage")
    update(memory, size="40Gi")
    run_on(late)
    assert isinstance(late.error, rest.InvalidRequest)
    assert stored(memory).spec.size == "40Gi"


@mutant("service/storages/storages.py", "        self._storages.wrote(written)\n", "")
def test_who_changes_a_storage_sees_that_in_the_next_answer() -> None:
    replica = Replica(with_storage()).listen()  # no event reaches its cache
    finish(replica.storages.update(None, "data", parse(UpdateGPUStorage, {"size": "40Gi"}, partial=True)))
    assert finish(replica.storages.get(None, "data")).size == "40Gi"


@mutant("service/storages/storages.py", "            self._storages.deleted(storage)\n", "")
def test_who_deletes_a_storage_sees_that_in_the_next_answer() -> None:
    replica = Replica(with_storage()).listen()
    finish(replica.storages.delete(None, "data"))
    with pytest.raises(rest.Missing, match="storage data does not exist"):
        finish(replica.storages.get(None, "data"))


def test_a_storage_that_is_being_deleted_does_not_change() -> None:
    memory = with_storage(deleting(a_storage()))
    with pytest.raises(rest.Clash, match="is being deleted"):
        update(memory, size="40Gi")


# Recovering

PREPARE = {"fromImage": "alpine", "command": ["wget"]}


def prepared(phase: Any, **status: Any) -> GPUStorage:
    storage = a_storage(prepare=PREPARE)
    status = {"observedDigest": prepare_digest(storage), **status}
    return replace(storage, status=GPUStorageStatus(phase="Failed", prepare=PrepareStatus(phase=phase, **status)))


def recover(memory: Memory) -> StorageView:
    return finish(Replica(memory).storages.recover(None, "data"))


def test_a_failed_prepare_is_recovered_once() -> None:
    memory = with_storage(prepared("Failed", recoveryPhase="Required", message="exit code 3"))
    failed = finish(Replica(memory).storages.get(None, "data")).prepare
    assert failed is not None
    assert (failed.phase, failed.message) == ("Failed", "exit code 3")
    view = recover(memory)
    assert view.prepare is not None
    assert (view.prepare.phase, view.prepare.recoveryPhase, view.prepare.message) == ("Pending", "Running", "")
    assert stored(memory).metadata.annotations[notes.STORAGE_RECOVERY_NONCE]
    with pytest.raises(rest.Clash, match="is being recovered already"):
        recover(memory)


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        (a_storage(), "has no prepare"),
        (prepared("Succeeded"), "is filled"),
        (prepared("Running"), r"is being filled \(prepare is Running\)"),
        (prepared("Pending"), r"is being filled \(prepare is Pending\)"),
        (prepared("Succeeded", observedDigest="of-another"), "is filled"),
        (prepared("Failed", observedDigest="of-another"), "is being recovered already"),
        (prepared("Failed", observedDigest="", message="no"), "cannot be filled by its prepare: no"),
        (a_storage(prepare=PREPARE), r"is being filled \(prepare is Pending\)"),
        (deleting(prepared("Failed")), "is being deleted"),
    ],
)
def test_a_recovery_that_makes_no_sense_is_refused(storage: GPUStorage, words: str) -> None:
    memory = with_storage(storage)
    before = memory.version
    with pytest.raises(rest.Clash, match=f"storage data {words}"):
        recover(memory)
    assert memory.version == before


def test_a_unit_that_waits_for_the_storage_does_not_prevent_its_recovery() -> None:
    memory = with_storage(held_by(UNIT, prepared("Failed")))
    assert recover(memory).attachedTo is not None


def test_of_two_recoveries_at_once_one_counts() -> None:
    memory = with_storage(prepared("Failed"))
    late = stopped_before(Replica(memory).storages.recover(None, "data"), "patch GPUStorage")
    recover(memory)
    nonce = stored(memory).metadata.annotations[notes.STORAGE_RECOVERY_NONCE]
    run_on(late)
    assert isinstance(late.error, rest.Clash)
    assert stored(memory).metadata.annotations[notes.STORAGE_RECOVERY_NONCE] == nonce


def test_a_storage_that_is_not_there_is_not_found() -> None:
    memory = a_world()
    with pytest.raises(rest.Missing):
        recover(memory)
    with pytest.raises(rest.Missing):
        update(memory, size="1Gi")
    with pytest.raises(rest.Missing):
        finish(Replica(memory).listen().storages.get(None, "data"))
