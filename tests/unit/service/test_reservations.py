"""Requests that mount storages: what is refused before anything is written, and who holds the storages afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.attachment import Attachment, attachment_of
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.kube.errors import Conflict
from gpu_runtime.rest.errors import Clash, InvalidRequest, Missing, ServiceError, StorageInUse
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.service.cluster import GPU_STORAGES, GPU_UNITS, OPERATIONS
from gpu_runtime.service.stock.claim import holder
from gpu_runtime.service.storages.reservations import Reservations
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory
from unit.service.replica import Replica, a_stock_unit, a_users_unit, key_of
from unit.service.replica import a_world as a_world_with_stock
from unit.service.storage_world import HERE, StorageMemory, a_storage, deleting, held_by, stored

OTHER = Attachment(unit="other", uid="other-uid")
COPY = Attachment(storage="copy", uid="copy-uid")


def a_world(*storages: Any) -> StorageMemory:
    memory = StorageMemory()
    a_world_with_stock(memory)
    for storage in storages:
        memory.put(GPU_STORAGES, storage)
    return memory


def mounts(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "mountPath": f"/mnt/{name}"} for name in names]


def holder_of(memory: Memory, name: str = "data") -> Attachment | None:
    return attachment_of(stored(memory, name).metadata)


UNREADABLE = replace(a_storage(), metadata=replace(a_storage().metadata, annotations={ATTACHED_TO: "{"}))
REFUSALS: dict[str, tuple[list[Any], type[ServiceError], str]] = {
    "a storage that does not exist": ([], Missing, "storage data does not exist in namespace runtime-instance"),
    "a storage that another unit holds": ([held_by(OTHER, a_storage())], StorageInUse, "in use by unit other"),
    "a storage that is being copied": ([held_by(COPY, a_storage())], StorageInUse, "in use by storage copy"),
    "a storage that is being deleted": ([deleting(a_storage())], Clash, "storage data is being deleted"),
    "a storage whose record cannot be read": ([UNREADABLE], StorageInUse, "cannot be read"),
}


@pytest.mark.parametrize(("storages", "error", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_unit_that_cannot_have_its_storage_is_refused_and_nothing_is_written(
    storages: list[Any], error: type[ServiceError], words: str
) -> None:
    memory = a_world(*storages)
    before = memory.version
    with pytest.raises(error, match=words):
        Replica(memory).listen().create(storageMounts=mounts("data"))
    assert memory.version == before


@pytest.mark.parametrize(("storages", "error", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_change_that_cannot_have_its_storage_is_refused_and_nothing_is_written(
    storages: list[Any], error: type[ServiceError], words: str
) -> None:
    memory = a_world(*storages)
    memory.put(GPU_UNITS, a_users_unit())
    before = memory.version
    with pytest.raises(error, match=words):
        attach(memory, "data")
    assert memory.version == before


def attach(memory: Memory, *names: str) -> None:
    change = parse(UpdateGPUUnit, {"storageMounts": mounts(*names)}, partial=True)
    finish(Replica(memory).listen().units.update(HERE, "demo", change))


def test_a_unit_holds_all_of_its_storages_for_its_operation() -> None:
    memory = a_world(a_storage("one"), a_storage("two"))
    view, new = Replica(memory).listen().create(storageMounts=mounts("two", "one"))
    [record] = memory.of_kind(OPERATIONS)
    assert new
    assert [mount.name for mount in view.storageMounts] == ["two", "one"]
    for name in ("one", "two"):
        held = holder_of(memory, name)
        assert held is not None
        assert (held.unit, held.operation, held.operationName) == ("demo", record.metadata.uid, record.metadata.name)
        assert held.since is not None


@mutant(
    "service/storages/reservations.py",
    "for name in sorted({mount.name for mount in mounts})]",
    "for name in {mount.name: 0 for mount in mounts}]",
)
def test_two_requests_for_the_same_storages_meet_at_the_same_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_world(a_storage("one"), a_storage("two"))
    calls = recorded(memory, monkeypatch)
    Replica(memory).listen().create(storageMounts=mounts("two", "one"))
    assert [call for call in calls if call.startswith("patch GPUStorage")] == [
        "patch GPUStorage one",
        "patch GPUStorage two",
    ]


def recorded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    patch = memory.patch

    async def noted(resource: Any, key: Any, changes: Any) -> Any:
        calls.append(f"patch {resource.kind} {key.name}")
        return await patch(resource, key, changes)

    monkeypatch.setattr(memory, "patch", noted)
    return calls


def test_a_hand_over_that_loses_its_storage_frees_its_stock_and_its_other_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = a_world(a_storage("one"), a_storage("two"))
    create = Replica(memory).listen().create_later(storageMounts=mounts("one", "two"))
    patch = memory.patch

    async def rival(resource: Any, key: Any, changes: Any) -> Any:
        if key.name == "two" and holder_of(memory, "two") is None:
            memory._write(GPU_STORAGES, stored(memory, "two"), held_by(OTHER, stored(memory, "two")).metadata)
        return await patch(resource, key, changes)

    monkeypatch.setattr(memory, "patch", rival)
    with pytest.raises(StorageInUse, match="storage two is in use by unit other"):
        finish(create)
    assert holder_of(memory, "one") is None
    assert holder_of(memory, "two") == OTHER
    assert not memory.of_kind(OPERATIONS)
    assert [holder(unit) for unit in memory.of_kind(GPU_UNITS)] == ["", ""]


def test_a_replay_finds_its_own_reservation_and_answers_with_its_unit() -> None:
    memory = a_world(a_storage())
    replica = Replica(memory).listen()
    replica.create(storageMounts=mounts("data"))
    _, new = replica.create(storageMounts=mounts("data"))
    assert not new


def test_a_unit_without_stock_reserves_nothing() -> None:
    memory = a_world(a_storage())
    for unit in (a_stock_unit("stock-0"), a_stock_unit("stock-1")):
        del memory.objects[GPU_UNITS.kind, unit.metadata.key]
    with pytest.raises(Clash, match="no stock unit"):
        Replica(memory).listen().create(storageMounts=mounts("data"))
    assert holder_of(memory) is None


def test_a_change_reserves_what_it_adds_and_leaves_what_it_removes_to_the_controller() -> None:
    memory = a_world(a_storage("one"), a_storage("two"))
    memory.put(GPU_UNITS, a_users_unit())
    attach(memory, "one")
    attach(memory, "two")
    unit = memory.objects[GPU_UNITS.kind, key_of("demo")]
    assert [mount.name for mount in unit.spec.storageMounts] == ["two"]
    for name in ("one", "two"):
        held = holder_of(memory, name)
        assert held is not None
        assert (held.unit, held.uid) == ("demo", unit.metadata.uid)


@mutant("service/units/units.py", "        await self._storages.check(namespace, added, holder)\n", "")
def test_a_change_that_cannot_have_one_of_its_storages_keeps_none_of_them() -> None:
    memory = a_world(a_storage("one"), held_by(OTHER, a_storage("two")))
    memory.put(GPU_UNITS, a_users_unit())
    with pytest.raises(StorageInUse, match="storage two is in use by unit other"):
        attach(memory, "one", "two")
    assert holder_of(memory, "one") is None


@mutant("service/units/units.py", "if mount.name not in before]", "]")
def test_a_change_asks_nothing_of_the_storages_that_the_unit_mounts_already() -> None:
    memory = a_world(a_storage("one"), a_storage("two"))
    memory.put(GPU_UNITS, a_users_unit())
    attach(memory, "one")
    memory._write(GPU_STORAGES, stored(memory, "one"), deleting(stored(memory, "one")).metadata)
    attach(memory, "one", "two")
    assert holder_of(memory, "two") is not None


@mutant(
    "service/storages/reservations.py",
    "bool(one.operation and one.operation == other.operation)",
    "bool(one.operation)",
)
def test_a_storage_that_another_operation_holds_for_a_unit_of_the_name_is_in_use() -> None:
    earlier = Attachment(unit="demo", operation="earlier-uid", operationName="earlier")
    memory = a_world(held_by(earlier, a_storage()))
    reservations, mine = Reservations(memory), replace(earlier, operation="mine-uid", operationName="mine")
    mount = [StorageMount(name="data", mountPath="/data")]
    with pytest.raises(StorageInUse):
        finish(reservations.reserve(HERE, mount, mine))
    finish(reservations.release(HERE, mount, mine))
    assert holder_of(memory) == earlier


@mutant(
    "service/storages/reservations.py",
    '{"metadata": {**identity(storage.metadata), "annotations": {ATTACHED_TO: None}}}',
    '{"metadata": {"annotations": {ATTACHED_TO: None}}}',
)
def test_a_release_that_comes_late_leaves_the_next_holder_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Attachment(unit="demo", operation="mine-uid", operationName="mine")
    memory = a_world(held_by(mine, a_storage()))
    patch = memory.patch

    async def rival(resource: Any, key: Any, changes: Any) -> Any:
        if holder_of(memory) == mine:
            memory._write(GPU_STORAGES, stored(memory), held_by(OTHER, stored(memory)).metadata)
        return await patch(resource, key, changes)

    monkeypatch.setattr(memory, "patch", rival)
    finish(Reservations(memory).release(HERE, [StorageMount(name="data", mountPath="/data")], mine))
    assert holder_of(memory) == OTHER


@mutant(
    "service/storages/reservations.py",
    "if not _is_free(storage, holder) and not holder.uid:",
    "if not _is_free(storage, holder):",
)
def test_a_unit_that_holds_a_storage_already_writes_the_record_again() -> None:
    memory = a_world(a_storage())
    unit = memory.put(GPU_UNITS, a_users_unit())
    mine = Attachment(unit="demo", uid=unit.metadata.uid)
    memory._write(GPU_STORAGES, stored(memory), held_by(mine, stored(memory)).metadata)
    seen = stored(memory).metadata.resourceVersion
    attach(memory, "data")
    assert stored(memory).metadata.resourceVersion != seen


def test_a_unit_that_holds_a_storage_for_its_operation_can_mount_it_again() -> None:
    memory = a_world(a_storage())
    Replica(memory).listen().create(storageMounts=mounts("data"))
    attach(memory)
    attach(memory, "data")
    held, unit = holder_of(memory), memory.objects[GPU_UNITS.kind, key_of("demo")]
    assert held is not None
    assert (held.unit, held.uid, held.operation) == ("demo", unit.metadata.uid, "")


def test_a_storage_that_changes_during_the_reservation_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = a_world(a_storage())
    patch, failed = memory.patch, list[Any]()

    async def once(resource: Any, key: Any, changes: Any) -> Any:
        if resource.kind == "GPUStorage" and not failed:
            failed.append(key)
            raise Conflict(409, "Conflict", "changed", causes=[], retry_after=None)
        return await patch(resource, key, changes)

    monkeypatch.setattr(memory, "patch", once)
    Replica(memory).listen().create(storageMounts=mounts("data"))
    assert failed
    assert holder_of(memory) is not None


BAD_MOUNTS: dict[str, Any] = {
    "a relative path": [{"name": "data", "mountPath": "data"}],
    "the root": [{"name": "data", "mountPath": "/"}],
    "the process folder": [{"name": "data", "mountPath": "/proc/data"}],
    "the device folder": [{"name": "data", "mountPath": "/dev"}],
    "the configuration of the machine": [{"name": "data", "mountPath": "/etc"}],
    "a path twice": [{"name": "one", "mountPath": "/a"}, {"name": "two", "mountPath": "/a/"}],
    "a path inside another": [{"name": "one", "mountPath": "/a"}, {"name": "two", "mountPath": "/a/b"}],
    "a storage twice": [{"name": "one", "mountPath": "/a"}, {"name": "one", "mountPath": "/b"}],
    "a way out": [{"name": "one", "mountPath": "/a/../etc"}],
    "an unknown field": [{"name": "one", "mountPath": "/a", "subPath": "x"}],
    "a storage of another namespace": [{"name": "other/one", "mountPath": "/a"}],
}


@pytest.mark.parametrize("wanted", BAD_MOUNTS.values(), ids=BAD_MOUNTS)
def test_a_mount_that_no_container_can_have_is_refused_by_its_field(wanted: Any) -> None:
    sent = {"operationID": "a", "name": "demo", "specName": "g1", "image": "a", "storageMounts": wanted}
    with pytest.raises(InvalidRequest) as refused:
        parse(CreateGPUUnit, sent)
    assert all(detail.field.startswith("storageMounts[") for detail in refused.value.details)
