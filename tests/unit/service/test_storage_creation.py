"""Creating storages: idempotent by name or by operationID, also on two replicas."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Object, ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.errors import Forbidden as KubeForbidden
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest import errors as rest
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUStorage
from gpu_runtime.service.cluster import GPU_STORAGES, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Process, Turn
from unit.service.replica import Replica
from unit.service.storage_world import (
    HERE,
    StorageMemory,
    a_storage,
    a_world,
    create,
    creating,
    deleting,
    held_by,
    key_of,
    run_on,
    stopped_before,
    stored,
)

T = TypeVar("T", bound=Object)


def test_a_create_without_an_operation_id_is_one_call() -> None:
    memory = a_world()
    replica = Replica(memory).listen()
    calls = run_on(Process("client", lambda: creating(replica)))
    assert calls == ["start", "create GPUStorage data"]
    assert not memory.of_kind(OPERATIONS)


def test_a_create_with_an_operation_id_reads_nothing_unless_the_name_is_known() -> None:
    memory = a_world()
    replica = Replica(memory).listen()
    calls = run_on(Process("client", lambda: creating(replica, operationID="a")))
    assert [call.split()[0] for call in calls] == ["start", "create", "create", "replace"]
    calls = run_on(Process("client", lambda: creating(Replica(memory).listen(), operationID="a")))
    assert [call.split()[0] for call in calls] == ["start", "get"]


def test_the_storage_has_the_defaults_the_labels_and_the_owner() -> None:
    memory = a_world()
    sent = {"name": "data", "size": "20Gi"}
    view, new = finish(Replica(memory).listen().storages.create(parse(CreateGPUStorage, sent), sent, "ann"))
    assert (view.name, view.namespace, view.size, view.storageClassName, view.owner, new) == (
        "data",
        HERE,
        "20Gi",
        "rook-ceph-block",
        "ann",
        True,
    )
    assert (view.phase, view.reason) == ("Pending", "AwaitingController")
    assert stored(memory).metadata.labels[labels.APP_NAME] == labels.GPU_STORAGE_APP


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"size": "20480Mi"},
        {"storageClassName": "rook-ceph-block"},
        {"storageClassName": None, "prepare": None},
        {"accessor": {"enabled": False}},
        {"accessor": {}},
        {"namespace": HERE},
    ],
)
@mutant(
    "service/storages/creation.py", "amount_of(existing.size) != amount_of(wanted.size)", "existing.size != wanted.size"
)
def test_the_same_request_in_any_spelling_is_answered_with_the_storage_that_exists(again: dict[str, Any]) -> None:
    memory = a_world()
    first, _ = create(memory)
    view, new = create(memory, **again)
    assert (view, new) == (first, False)


IMAGE = {"fromImage": "alpine", "command": ["wget"]}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"size": "40Gi"}, "size is 20Gi, not 40Gi"),
        ({"storageClassName": "fast"}, "storageClassName is rook-ceph-block, not fast"),
        ({"prepare": IMAGE}, "prepare differs"),
        ({"accessor": {"enabled": True}}, "accessor.enabled is false, not true"),
        ({"size": "1Gi", "storageClassName": "fast"}, "size is 20Gi, not 1Gi, storageClassName is"),
    ],
)
def test_another_request_with_the_name_is_told_what_differs(other: dict[str, Any], words: str) -> None:
    memory = a_world()
    create(memory)
    before = memory.version
    with pytest.raises(rest.AlreadyExists, match=words):
        create(memory, **other)
    assert memory.version == before


@mutant("service/storages/creation.py", "if existing.metadata.deletionTimestamp is not None:", "if False:")
@pytest.mark.parametrize("operation", [{}, {"operationID": "a"}])
def test_a_storage_that_is_being_deleted_is_not_given_to_a_new_request(operation: dict[str, Any]) -> None:
    memory = a_world()
    memory.put(GPU_STORAGES, deleting(a_storage()))
    with pytest.raises(rest.AlreadyExists, match="is being deleted; send the request again when it is gone"):
        create(memory, **operation)
    assert not memory.of_kind(OPERATIONS)


@pytest.mark.parametrize("other", [{}, {"size": "40Gi"}, {"operationID": "b"}])
def test_of_two_replicas_that_are_asked_for_one_name_exactly_one_creates_it(other: dict[str, Any]) -> None:
    for seed in range(60):
        rng, memory = Random(seed), a_world()
        one, two = Replica(memory).listen(), Replica(memory).listen()
        racing = [
            Process("one", lambda one=one: creating(one)),  # type: ignore[misc]
            Process("two", lambda two=two: creating(two, **other)),  # type: ignore[misc]
        ]
        while alive := [process for process in racing if not process.done]:
            rng.choice(alive).step()
        created = [process for process in racing if process.error is None and process.result[1]]
        assert len(memory.of_kind(GPU_STORAGES)) == len(created) == 1
        (loser,) = (process for process in racing if process is not created[0])
        if loser.error is None:
            assert loser.result[0].resourceVersion
        else:
            assert isinstance(loser.error, rest.AlreadyExists)
            assert other


def test_a_storage_that_goes_between_two_calls_is_created() -> None:
    memory = a_world()
    memory.put(GPU_STORAGES, a_storage(size="1Gi"))
    late = stopped_before(creating(Replica(memory).listen()), "get GPUStorage")
    finish(memory.delete(GPU_STORAGES, key_of()))
    run_on(late)
    assert late.error is None
    assert late.result[1]


class FullQuota(StorageMemory):
    """A quota for one storage, which is checked before names."""

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        if resource.kind == GPU_STORAGES.kind and self.of_kind(GPU_STORAGES):
            await Turn("create over quota")
            raise KubeForbidden(403, "Forbidden", "exceeded quota: storages", causes=[], retry_after=None)
        return await super().create(resource, obj)


@pytest.mark.parametrize("operation", [{}, {"operationID": "a"}])
def test_a_replay_under_a_quota_that_the_storage_itself_fills_finds_it(operation: dict[str, Any]) -> None:
    memory = FullQuota()
    memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=HERE)))
    create(memory, **operation)
    assert create(memory, **operation)[1] is False
    with pytest.raises(rest.InsufficientCapacity, match="exceeded quota"):
        create(memory, name="another", operationID="b")


@mutant("service/storages/creation.py", "if not isinstance(error, kube.AlreadyExists):", "if False:")
def test_a_refusal_of_the_server_is_told_as_it_is() -> None:
    memory = FullQuota()
    memory.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=HERE)))
    create(memory)
    with pytest.raises(rest.InsufficientCapacity, match="exceeded quota"):
        create(memory, name="another")


def test_an_operation_id_is_replayed_refused_for_another_payload_and_kept_after_a_deletion() -> None:
    memory = a_world()
    first, new = create(memory, operationID="a")
    assert new
    assert first.operationID == "a"
    again, new = create(memory, operationID="a", size="20480Mi")
    assert (again.resourceVersion, new) == (first.resourceVersion, False)
    with pytest.raises(rest.OperationConflict):
        create(memory, operationID="a", size="21Gi")
    finish(Replica(memory).storages.delete(None, "data"))
    gone, new = create(memory, operationID="a")
    assert (gone.deleted, gone.name, new) == (True, "data", False)
    assert not memory.of_kind(GPU_STORAGES)


def test_a_replay_does_not_answer_with_a_later_storage_of_the_name() -> None:
    memory = a_world()
    create(memory, operationID="a")
    old = Replica(memory).listen()
    finish(memory.delete(GPU_STORAGES, key_of()))
    create(memory)
    assert create(memory, operationID="a")[0].deleted
    assert finish(creating(old, operationID="a"))[0].name == "data"  # a cache that still shows it


def test_an_operation_id_does_not_take_over_a_storage_that_another_request_created() -> None:
    memory = a_world()
    create(memory)
    with pytest.raises(rest.AlreadyExists, match="operationID b did not create it"):
        create(memory, operationID="b")
    assert not memory.of_kind(OPERATIONS)


@mutant("service/operations/object_executor.py", "if notes.ATTACHED_TO in meta.annotations:", "if False:")
def test_an_executor_whose_record_is_gone_leaves_a_storage_that_is_in_use() -> None:
    memory = a_world()
    late = stopped_before(creating(Replica(memory).listen(), operationID="a"), "replace Operation")
    (record,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, record.metadata.key))
    holder = held_by(Attachment(unit="demo", uid="u"), stored(memory)).metadata.annotations
    finish(memory.patch(GPU_STORAGES, key_of(), {"metadata": {"annotations": holder}}))
    for _ in range(5):  # it begins again; what counts is what became of the storage
        late.step()
    assert notes.ATTACHED_TO in stored(memory).metadata.annotations
