"""Requests, kubectl, both reconcilers and the sweeper around two storages: the real code, in many orders of calls.

Each rule of the protocol (docs/storage.md) is taken out once, and the schedules must notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.labels import UNIT
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.gpustorage import deletion, judge, mounters
from gpu_runtime.controllers.gpuunit.reconcile import GPUUnitReconciler
from gpu_runtime.controllers.gpuunit.storage_gate import StorageGate
from gpu_runtime.kube import children
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import identity
from gpu_runtime.service.storages import reservations
from gpu_runtime.service.storages.reservations import Reservations
from unit.service.exploration.scene import Violation
from unit.service.exploration.storage_cluster import claims_of
from unit.service.exploration.storage_scene import StorageScene, random_storage_schedule

SCHEDULES = 150
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
    before = ChildWriter.ensure

    async def newest(self: Any, parent: Any, resource: Any, desired: Any, cache: Any, seen: Any = None) -> Any:
        if seen is not None:
            seen = await self.children.client.get(DEPLOYMENTS, seen.metadata.key)
        return await before(self, parent, resource, desired, cache, seen)

    patch.setattr(ChildWriter, "ensure", newest)


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


def pods_last(patch: pytest.MonkeyPatch) -> None:
    before, pods = judge.Judge._unit_has_left, judge.Judge._no_pod_mounts

    async def first(self: judge.Judge, storage: ObjectMeta, holder: Any) -> None:
        await pods(self, storage, f"{UNIT}={holder.unit}")
        await before(self, storage, holder)

    patch.setattr(judge.Judge, "_unit_has_left", first)
    patch.setattr(judge.Judge, "_no_pod_mounts", passes)


def mount_by_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(children, "identity", nothing)


def create_without_replicas(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: GPUUnitReconciler, seen: Any) -> Any:
        if seen.workload is None and self._mounts(seen.unit):
            await self.storages.open(seen.unit)
        return seen

    patch.setattr(GPUUnitReconciler, "_before_mount", at_once)


def refuse_what_is_being_deleted(patch: pytest.MonkeyPatch) -> None:
    before = reservations._is_free

    def free(storage: Any, holder: Any) -> bool:
        return before(replace(storage, metadata=replace(storage.metadata, deletionTimestamp=None)), holder)

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


# The schedules. Each is right with all rules, and wrong without the rules that it is listed for.


def pods_follow(scene: StorageScene) -> None:
    """Kubernetes is faster than our controllers."""
    for _ in range(5):
        scene.run("kubernetes")


def replica_set_is_made(scene: StorageScene) -> None:
    """The ReplicaSet that mounts the storage is there; its pod is not."""
    while not any(claims_of(each["spec"]["template"]) and each["status"] for each in scene.api.of_kind("ReplicaSet")):
        scene.run("kubernetes")


def two_requests_want_one_storage(scene: StorageScene) -> None:
    attach = scene.run("attach a", until="patch GPUStorage s1")
    scene.run("create b")
    scene.run(attach)


def kubectl_wants_a_storage_that_is_in_use(scene: StorageScene) -> None:
    scene.run("create b")
    scene.rest()
    scene.run("kubectl create c")


def a_mount_comes_late(scene: StorageScene) -> None:
    scene.run("attach a")
    late = scene.run("unit a", until="patch GPUStorage s1")
    scene.step(late)  # the record is confirmed; what is left is the Deployment
    scene.run("detach a")
    scene.run("storage s1")
    scene.run("create b")
    scene.run(late)
    pods_follow(scene)


def a_request_comes_while_the_storage_is_being_freed(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("detach a")
    freeing = scene.run("storage s1", until="patch GPUStorage s1")
    scene.run("attach a again")
    scene.run(freeing)
    scene.run("create b")


def a_unit_waits_for_its_mount(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("storage s1")
    scene.run("create b")


def a_hand_over_is_under_way(scene: StorageScene) -> None:
    create = scene.run("create b", until="create GPUUnit b")
    scene.run("storage s1")
    scene.run("attach a")
    scene.run(create)


def a_request_is_interrupted_after_its_reservation(scene: StorageScene) -> None:
    attach = scene.run("attach a", until="patch GPUUnit a")
    scene.run("storage s1")
    scene.run("create b")
    scene.run(attach)


def an_earlier_controller_died_before_it_freed(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("detach a")
    scene.run("storage s1", until="patch GPUStorage s1").stop()
    attach = scene.run("attach a again", until="patch GPUUnit a")
    scene.run("storage s1")
    scene.run("create b")
    scene.run(attach)


def a_replica_set_has_not_made_its_pod_yet(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("unit a")
    replica_set_is_made(scene)
    making = scene.run("kubernetes", until="play ReplicaSet a-")
    scene.run("detach a")
    scene.run("unit a")
    scene.run("storage s1")
    scene.run("create b")
    scene.run(making)


def a_pod_has_not_ended_yet(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.rest()
    scene.run("detach a")
    scene.run("unit a")
    for _ in range(2):  # the ReplicaSet is at zero, and its pod still runs
        scene.run("kubernetes")
    scene.run("storage s1")


def a_pod_is_made_while_the_storage_is_being_freed(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("unit a")
    replica_set_is_made(scene)
    scene.run("detach a")
    scene.run("unit a")
    making = scene.run("kubernetes", until="play ReplicaSet")  # the Deployment was seen, its ReplicaSet not
    freeing = scene.run("storage s1", until="list ReplicaSet")
    scene.run(making)  # the pod is made
    scene.run("kubernetes")  # its ReplicaSet is at zero, and it still runs
    scene.run(freeing)


def a_deployment_is_created_late(scene: StorageScene) -> None:
    scene.run("kubectl create c")
    late = scene.run("unit c", until="create Deployment")
    scene.run("delete c")
    scene.run("storage s2")
    scene.run("create b")
    scene.rest()
    scene.run(late)
    pods_follow(scene)


def a_storage_that_is_being_deleted_is_wanted(scene: StorageScene) -> None:
    scene.run("delete s1")
    scene.run("attach a")


def a_mounted_storage_is_deleted(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.rest()
    scene.run("delete s1")


def kubectl_gives_the_mount_back_while_the_storage_is_being_freed(scene: StorageScene) -> None:
    scene.run("attach a")
    scene.run("detach a")
    freeing = scene.run("storage s1", until="patch GPUStorage s1")
    scene.run("kubectl edit a")
    scene.run("unit a")
    scene.run(freeing)
    scene.run("create b")


def an_old_cache_still_shows_a_deleted_unit(scene: StorageScene) -> None:
    scene.run("create b")
    scene.run("stock")  # its pod ends
    scene.run("garbage collector")
    late = scene.run("unit b", until="create Deployment")
    scene.run("delete b")
    freeing = scene.run("storage s1", until="patch GPUStorage s1")
    while not late.done and not late.next.startswith("patch Deployment"):
        scene.step(late)
    scene.run(freeing)
    scene.run("attach a")
    scene.run("unit a")
    scene.run(late)
    pods_follow(scene)


Schedule = Callable[[StorageScene], None]
SHOWS: dict[Schedule, dict[str, Break]] = {
    two_requests_want_one_storage: {"reserve by version": reserve_by_version},
    kubectl_wants_a_storage_that_is_in_use: {"read the record": read_the_record},
    a_mount_comes_late: {
        "Deployment first, record second": deployment_first,
        "mount by version": mount_by_version,
        "touch the Deployment": touch("Deployment"),
    },
    a_request_comes_while_the_storage_is_being_freed: {
        "free by version": free_by_version,
        "write the record again": reserve_again,
    },
    a_unit_waits_for_its_mount: {"look at the unit": look_at_the_unit},
    a_hand_over_is_under_way: {"look at the operation": look_at_the_operation},
    a_request_is_interrupted_after_its_reservation: {"touch the unit": touch("GPUUnit")},
    an_earlier_controller_died_before_it_freed: {"touch with a new value": touch_with_a_new_value},
    a_replica_set_has_not_made_its_pod_yet: {"look at Deployment and ReplicaSets": look_at_makers},
    a_pod_has_not_ended_yet: {"look at pods": look_at_pods},
    a_pod_is_made_while_the_storage_is_being_freed: {"pods last": pods_last},
    a_deployment_is_created_late: {"create without replicas": create_without_replicas},
    a_storage_that_is_being_deleted_is_wanted: {"refuse what is being deleted": refuse_what_is_being_deleted},
    a_mounted_storage_is_deleted: {"wait for the holder": wait_for_the_holder},
    kubectl_gives_the_mount_back_while_the_storage_is_being_freed: {"confirm by a write": write_the_record_again},
    an_old_cache_still_shows_a_deleted_unit: {"confirm the unit": confirm_the_unit},
}


@pytest.mark.parametrize("schedule", SHOWS, ids=lambda each: each.__name__)
def test_a_schedule_holds(schedule: Schedule) -> None:
    _play(schedule)


@pytest.mark.parametrize(
    ("schedule", "rule"),
    [pytest.param(schedule, rule, id=name) for schedule, rules in SHOWS.items() for name, rule in rules.items()],
)
def test_taking_a_rule_out_is_noticed(schedule: Schedule, rule: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch)
    with pytest.raises(Violation):
        _play(schedule)


def _play(schedule: Schedule) -> None:
    scene = StorageScene()
    schedule(scene)
    scene.rest()
    scene.check_end()
