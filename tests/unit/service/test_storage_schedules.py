"""Requests, kubectl, both reconcilers and the sweeper around two storages: the real code, in many orders of calls.

Each rule of the protocol (docs/storage.md) is taken out once, and the schedules must notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.gpustorage import deletion, judge, mounters
from gpu_runtime.controllers.gpuunit import storage_gate
from gpu_runtime.controllers.gpuunit.reconcile import GPUUnitReconciler
from gpu_runtime.controllers.gpuunit.storage_gate import StorageGate
from gpu_runtime.kube import children
from gpu_runtime.kube.children import identity
from gpu_runtime.service.storages import reservations
from gpu_runtime.service.storages.reservations import Reservations
from unit.service.exploration.scene import Violation
from unit.service.exploration.storage_scene import random_storage_schedule

SCHEDULES = 150
MOST_SCHEDULES = 3_000
Break = Callable[[pytest.MonkeyPatch], None]


def test_random_schedules_hold() -> None:
    for seed in range(SCHEDULES):
        random_storage_schedule(seed)


def nothing(meta: ObjectMeta) -> dict[str, str]:
    return {}


async def passes(*_: Any, **__: Any) -> None:
    return None


def reserve_by_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reservations, "identity", nothing)


def read_the_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StorageGate, "open", passes)


def deployment_first(patch: pytest.MonkeyPatch) -> None:
    before = GPUUnitReconciler._before_mount

    async def late(self: GPUUnitReconciler, unit: Any, wanted: Any, live: Any) -> Any:
        await before(self, unit, wanted, live)
        return await self.storages.client.get(DEPLOYMENTS, unit.metadata.key)

    patch.setattr(GPUUnitReconciler, "_before_mount", late)


def free_by_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "identity", lambda meta: {} if meta.name.startswith("s") else identity(meta))


def look_at_the_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "_mounts", lambda unit, storage: False)


def look_at_the_operation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge.Judge, "_operation_has_ended", passes)


def touch(kind: str) -> Break:
    before = judge.Judge._touch

    async def some(self: judge.Judge, resource: Any, seen: ObjectMeta) -> None:
        if resource.kind != kind:
            await before(self, resource, seen)

    def without(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(judge.Judge, "_touch", some)

    return without


def touch_with_a_new_value(patch: pytest.MonkeyPatch) -> None:
    for each in (judge.Judge, StorageGate):
        patch.setattr(each.__init__, "__defaults__", (lambda: "same",))


def look_at_makers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mounters.Maker, "can_mount", lambda self, claim: False)
    patch.setattr(mounters.Maker, "is_settled", lambda self: True)


def look_at_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge.Judge, "_no_pod_mounts", passes)


def mount_by_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(children, "identity", nothing)


def create_without_replicas(patch: pytest.MonkeyPatch) -> None:
    before = GPUUnitReconciler._before_mount

    async def at_once(self: GPUUnitReconciler, unit: Any, wanted: Any, live: Any) -> Any:
        if live is not None:
            return await before(self, unit, wanted, live)
        return await self.storages.open(unit)

    patch.setattr(GPUUnitReconciler, "_before_mount", at_once)


def refuse_what_is_being_deleted(patch: pytest.MonkeyPatch) -> None:
    before = reservations._is_free

    def free(storage: Any, holder: Any) -> bool:
        kept = reservations.replace(storage.metadata, deletionTimestamp=None)
        return before(reservations.replace(storage, metadata=kept), holder)

    patch.setattr(reservations, "_is_free", free)


def wait_for_the_holder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "attachment_of", lambda meta: None)


def write_the_record_again(patch: pytest.MonkeyPatch) -> None:
    async def keep(self: StorageGate, storage: Any, record: dict[str, str]) -> Any:
        return await before(self, storage, record) if record else storage

    before = StorageGate._annotate
    patch.setattr(StorageGate, "_annotate", keep)


def reserve_again(patch: pytest.MonkeyPatch) -> None:
    before = Reservations._reserve

    async def once(self: Reservations, key: Any, holder: Any) -> None:
        if reservations._is_free(await self._read(key), holder):
            await before(self, key, holder)

    patch.setattr(Reservations, "_reserve", once)


def confirm_the_unit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StorageGate, "_confirm", passes)


RULES: dict[str, Break] = {
    each.__name__: each
    for each in (
        reserve_by_version,
        read_the_record,
        deployment_first,
        free_by_version,
        look_at_the_unit,
        look_at_the_operation,
        touch_with_a_new_value,
        look_at_makers,
        look_at_pods,
        mount_by_version,
        create_without_replicas,
        refuse_what_is_being_deleted,
        wait_for_the_holder,
        write_the_record_again,
        reserve_again,
        confirm_the_unit,
    )
} | {"touch_the_unit": touch("GPUUnit"), "touch_the_deployment": touch("Deployment")}


@pytest.mark.parametrize("rule", RULES)
def test_taking_a_rule_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with pytest.raises(Violation):
        for seed in range(MOST_SCHEDULES):
            random_storage_schedule(seed)
    assert storage_gate  # the modules that are patched
