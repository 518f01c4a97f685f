"""A storage that cannot be created is refused in words, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorageStatus
from gpu_runtime.rest import errors as rest
from gpu_runtime.service.cluster import GPU_STORAGES
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.storages.admission import StorageAdmission
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory
from unit.service.replica import Replica
from unit.service.storage_world import (
    a_storage,
    a_world,
    create,
    creating,
    deleting,
    held_by,
    key_of,
    run_on,
    stopped_before,
)

IMAGE = {"fromImage": "alpine", "command": ["wget"]}
SOURCE = {"prepare": {"fromStorageName": "source"}}
WAITING = GPUStorageStatus(phase="Pending", observedGeneration=1)


def refused(memory: Memory, error: type[rest.ServiceError], words: str, **body: Any) -> None:
    before = memory.version
    with pytest.raises(error, match=words):
        create(memory, **body)
    with pytest.raises(error, match=words):
        create(memory, operationID="op", **body)
    assert memory.version == before


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("0", "must be more than 0"),
        ("0Gi", "must be more than 0"),
        ("-1Gi", "is negative"),
        ("lots", "is not a quantity"),
        ("20GB", "is not a quantity"),
        ("", "must not be empty"),
        ("500m", "is not a whole number of bytes"),
        ("17Ti", "is more than 16Ti"),
        ("1e25", "is more than 16Ti"),
        (20, "must be a string"),
        (None, "is required"),
    ],
)
def test_a_size_that_no_volume_can_have_is_refused(size: Any, words: str) -> None:
    refused(a_world(), rest.InvalidRequest, f"^size: .*{words}", size=size)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ({"fromStorageName": "data"}, "names this storage itself"),
        ({**IMAGE, "fromStorageName": "b"}, "not both"),
        ({}, "must have fromImage or fromStorageName"),
        ({"command": ["a"]}, "command and args need fromImage"),
        ({"fromStorageName": "b", "args": ["a"]}, "runs no command"),
        ({"fromImage": "alpine"}, "needs command or args"),
        ({"fromStorageName": "team-b/data"}, "prepare.fromStorageName: must be"),
    ],
)
def test_a_prepare_that_cannot_work_is_refused(prepare: dict[str, Any], words: str) -> None:
    refused(a_world(), rest.InvalidRequest, words, prepare=prepare)


def test_all_errors_of_a_request_are_told_at_once() -> None:
    with pytest.raises(rest.InvalidRequest) as error:
        create(a_world(), name="Data", size="0", prepare={}, storageClassName="no class")
    assert {each.field for each in error.value.details} == {"name", "size", "prepare", "storageClassName"}


def test_a_namespace_that_is_reserved_or_missing_is_refused() -> None:
    memory = a_world()
    refused(memory, rest.Forbidden, "is reserved", namespace="kube-system")
    refused(memory, rest.Forbidden, "is not allowed", namespace="elsewhere")
    refused(memory, rest.Missing, "namespace default does not exist", namespace="default")


def test_a_copy_needs_a_source_that_is_there_ready_and_free() -> None:
    memory = a_world()
    refused(memory, rest.Missing, "prepare.fromStorageName: storage source does not exist", **SOURCE)
    memory.put(GPU_STORAGES, a_storage("source", status=WAITING))
    refused(memory, rest.Clash, "storage source is not Ready but Pending", **SOURCE)
    finish(memory.delete(GPU_STORAGES, key_of("source")))
    memory.put(GPU_STORAGES, deleting(a_storage("source")))
    refused(memory, rest.Clash, "storage source is being deleted", **SOURCE)
    finish(memory.delete(GPU_STORAGES, key_of("source")))
    memory.put(GPU_STORAGES, held_by(Attachment(unit="demo", uid="u"), a_storage("source")))
    refused(memory, rest.StorageInUse, "storage source is in use by unit demo", **SOURCE)


@mutant("service/storages/admission.py", "if holder is not None and not holder.storage:", "if holder is not None:")
def test_two_storages_may_be_copied_from_one_source() -> None:
    memory = a_world()
    memory.put(GPU_STORAGES, held_by(Attachment(storage="other", uid="u"), a_storage("source")))
    assert create(memory, **SOURCE)[1]


def test_the_source_is_judged_by_the_server_not_by_a_cache() -> None:
    memory = a_world()
    replica = Replica(memory).listen()
    memory.put(GPU_STORAGES, a_storage("source"))
    view, new = finish(creating(replica, **SOURCE))
    assert new
    assert view.prepare is not None
    assert (view.prepare.fromStorageName, view.prepare.phase) == ("source", "Pending")


@pytest.mark.parametrize("operation", [{}, {"operationID": "a"}])
def test_a_replay_needs_no_source_any_more(operation: dict[str, Any]) -> None:
    memory = a_world()
    memory.put(GPU_STORAGES, a_storage("source"))
    first, _ = create(memory, **SOURCE, **operation)
    finish(memory.delete(GPU_STORAGES, key_of("source")))
    again, new = create(memory, **SOURCE, **operation)
    assert (again.resourceVersion, new) == (first.resourceVersion, False)


@mutant("service/storages/storage_executor.py", "            if record is None:\n", "            if True:\n")
def test_a_second_executor_needs_no_source_either() -> None:
    memory = a_world()
    memory.put(GPU_STORAGES, a_storage("source"))
    slow = stopped_before(creating(Replica(memory).listen(), operationID="a", **SOURCE), "get GPUStorage source")
    create(memory, operationID="a", **SOURCE)
    finish(memory.delete(GPU_STORAGES, key_of("source")))
    run_on(slow)
    assert slow.error is None
    assert slow.result[1] is False


def test_the_limit_of_the_installation_is_inclusive() -> None:
    nothing: Any = None
    admission = StorageAdmission(Platform(largest_storage=Quantity.parse("1Ti")), nothing, nothing)
    admission.check_size("1024Gi")
    with pytest.raises(rest.InvalidRequest, match="1025Gi is more than 1Ti"):
        admission.check_size("1025Gi")
