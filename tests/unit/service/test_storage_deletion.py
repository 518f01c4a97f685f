"""Deleting storages: only while nobody holds them, and a unit that comes in between keeps its storage."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest import errors as rest
from gpu_runtime.service.cluster import GPU_STORAGES, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process, Turn
from unit.service.replica import Replica
from unit.service.storage_world import (
    StorageMemory,
    a_storage,
    a_world,
    create,
    creating,
    held_by,
    key_of,
    run_on,
    stopped_before,
    stored,
    with_storage,
)

T = TypeVar("T", bound=Object)
UNIT = Attachment(unit="demo", uid="u", since=datetime(2026, 1, 2, tzinfo=UTC))


def reserve(memory: Memory, holder: Attachment = UNIT) -> None:
    finish(memory.patch(GPU_STORAGES, key_of(), {"metadata": {"annotations": attached_to(holder)}}))


def delete(memory: Memory) -> None:
    finish(Replica(memory).listen().storages.delete(None, "data"))


def test_a_free_storage_is_deleted_and_then_not_found() -> None:
    memory = with_storage()
    delete(memory)
    assert not memory.of_kind(GPU_STORAGES)
    with pytest.raises(rest.Missing, match="storage data does not exist in namespace runtime-instance") as missing:
        delete(memory)
    assert missing.value.code == "gpu_storage_not_found"


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (UNIT, "in use by unit demo since 2026-01-02T00:00:00Z: delete the unit or remove the mount from it, and wait"),
        (Attachment(storage="copy", uid="u"), "in use by storage copy: wait until the copy ends"),
    ],
)
def test_a_storage_that_somebody_holds_stays(holder: Attachment, words: str) -> None:
    memory = with_storage(held_by(holder, a_storage()))
    with pytest.raises(rest.StorageInUse, match=words):
        delete(memory)
    assert stored(memory).metadata.uid


def test_a_record_that_nobody_can_read_keeps_the_storage_too() -> None:
    storage = a_storage()
    broken = replace(storage, metadata=replace(storage.metadata, annotations={notes.ATTACHED_TO: "{"}))
    memory = with_storage(broken)
    with pytest.raises(rest.StorageInUse, match="cannot be read: remove it if no unit mounts the storage"):
        delete(memory)


@mutant("service/storages/storages.py", ", resource_version=meta.resourceVersion)", ")")
def test_a_unit_that_gets_the_storage_during_its_deletion_keeps_it() -> None:
    memory = with_storage()
    late = stopped_before(Replica(memory).listen().storages.delete(None, "data"), "delete GPUStorage")
    reserve(memory)
    run_on(late)
    assert isinstance(late.error, rest.StorageInUse)
    assert stored(memory).metadata.uid


class Watchful(StorageMemory):
    """Refuses to see a storage deleted that somebody holds."""

    async def delete(self, resource: Resource[T], key: Key, **preconditions: Any) -> None:
        await Turn(f"delete {resource.kind} {key.name}")
        held = notes.ATTACHED_TO in stored(self).metadata.annotations
        for step in super().delete(resource, key, **preconditions).__await__():
            assert isinstance(step, Turn)
        assert not held, "deleted under its holder"


@mutant("service/storages/storages.py", ", resource_version=meta.resourceVersion)", ")")
def test_a_storage_is_deleted_or_reserved_never_both() -> None:
    outcomes = Counter[str]()
    for seed in range(300):
        rng, memory = Random(seed), Watchful()
        memory.put(GPU_STORAGES, a_storage())

        async def reserve_it(memory: StorageMemory = memory) -> None:
            free = await memory.get(GPU_STORAGES, key_of())
            patch = {"metadata": {**identity(free.metadata), "annotations": attached_to(UNIT)}}
            await memory.patch(GPU_STORAGES, key_of(), patch)

        async def report(memory: StorageMemory = memory) -> None:
            await memory.patch(GPU_STORAGES, key_of(), {"metadata": {"annotations": {"seen": "yes"}}})

        deletion = Process("delete", lambda memory=memory: Replica(memory).storages.delete(None, "data"))  # type: ignore[misc]
        reservation = Process("reserve", reserve_it)
        racing = [deletion, reservation, Process("report", report)]
        while alive := [process for process in racing if not process.done]:
            rng.choice(alive).step()
        assert (deletion.error is None) != (reservation.error is None), (deletion.error, reservation.error)
        outcomes["deleted" if deletion.error is None else type(deletion.error).__name__] += 1
    assert outcomes.keys() == {"deleted", "StorageInUse"}, outcomes


def test_the_holder_is_read_from_the_server_not_from_a_cache() -> None:
    memory = with_storage()
    replica = Replica(memory).listen()
    reserve(memory)
    with pytest.raises(rest.StorageInUse):
        finish(replica.storages.delete(None, "data"))


def test_a_status_that_is_written_meanwhile_does_not_prevent_a_deletion() -> None:
    memory = with_storage()
    late = stopped_before(Replica(memory).storages.delete(None, "data"), "delete GPUStorage")
    finish(memory.patch(GPU_STORAGES, key_of(), {"metadata": {"annotations": {"a": "b"}}}))
    run_on(late)
    assert late.error is None
    assert not memory.of_kind(GPU_STORAGES)


def test_the_deletion_of_a_later_storage_of_the_name_is_not_this_requests_business() -> None:
    memory = with_storage()
    late = stopped_before(Replica(memory).storages.delete(None, "data"), "delete GPUStorage")
    finish(memory.delete(GPU_STORAGES, key_of()))
    run_on(late)
    assert isinstance(late.error, rest.Missing)


@mutant("service/storages/storages.py", "            await self._executor.settle(storage)\n", "")
def test_a_storage_that_was_deleted_before_its_creation_was_recorded_does_not_come_back() -> None:
    memory = a_world()
    late = stopped_before(creating(Replica(memory).listen(), operationID="a"), "replace Operation")
    delete(memory)
    run_on(late)
    assert late.error is None
    assert late.result[0].deleted
    assert create(memory, operationID="a")[0].deleted
    assert not memory.of_kind(GPU_STORAGES)
    assert len(memory.of_kind(OPERATIONS)) == 1
