"""A storage is filled from another one that units want, in many orders of calls: the real code.

Each rule of the copy is taken out once, and a schedule must notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.controllers.child_kinds.jobs import JOBS, Job
from gpu_runtime.controllers.gpustorage.copy_progress import CopyProgress
from gpu_runtime.controllers.gpustorage.copy_source import CopySource
from gpu_runtime.controllers.gpustorage.prepare import StoragePrepare
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from unit.service.exploration.copy_scene import CopyScene, random_copy_schedule
from unit.service.exploration.scene import Violation

SCHEDULES = 40
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The played pods have no logs."""
    monkeypatch.setattr(CopyProgress, "read", nothing)


async def nothing(*_: Any, **__: Any) -> None:
    return None


def test_random_schedules_hold() -> None:
    for seed in range(SCHEDULES):
        random_copy_schedule(seed)


def hold_the_source(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CopySource, "look", nothing)
    patch.setattr(CopySource, "hold", nothing)


def write_the_record_again(patch: pytest.MonkeyPatch) -> None:
    before = CopySource.hold

    async def once(self: CopySource, target: Any, name: str) -> None:
        source = await self.client.get(GPU_STORAGES, Key(target.metadata.namespace, name))
        if attachment_of(source.metadata) is None:
            await before(self, target, name)

    patch.setattr(CopySource, "hold", once)


def wait_for_earlier_pods(patch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any, **__: Any) -> list[Any]:
        return []

    patch.setattr(StoragePrepare, "_working_pods", none)


def know_the_job_by_its_uid(patch: pytest.MonkeyPatch) -> None:
    async def by_name(self: StoragePrepare, storage: Any, attempt: Any) -> Job | None:
        return self.caches.jobs.get(Key(storage.metadata.namespace, attempt.job))

    patch.setattr(StoragePrepare, "_find", by_name)


def record_the_job_first(patch: pytest.MonkeyPatch) -> None:
    before = StoragePrepare._make

    async def make_and_resume(self: StoragePrepare, storage: Any, desired: Job) -> Job:
        made = await before(self, storage, desired)
        await self.source.hold(storage, "s1")
        return await self.client.patch(JOBS, made.metadata.key, {"spec": {"suspend": False}})

    patch.setattr(StoragePrepare, "_make", make_and_resume)


# The schedules. Each is right with all rules, and wrong without the rules that it is listed for.


def reconcile_t(scene: CopyScene, times: int) -> None:
    for _ in range(times):
        scene.run("storage t")
        scene.run("kubernetes")


def the_source_is_in_use(scene: CopyScene) -> None:
    scene.run("create b")
    scene.rest()
    scene.run("create t")


def a_recovery_begins_while_the_source_is_being_freed(scene: CopyScene) -> None:
    scene.run("create t")
    reconcile_t(scene, 5)
    scene.run("jobs")
    scene.run("pods of jobs")  # the first attempt fails
    scene.run("jobs")
    reconcile_t(scene, 1)
    freeing = scene.run("storage s1", until="patch GPUStorage s1")
    scene.run("recover t")
    reconcile_t(scene, 3)
    scene.run(freeing)
    scene.run("jobs")
    scene.run("attach a")


def a_recovery_begins_while_an_earlier_pod_runs(scene: CopyScene) -> None:
    scene.run("create t")
    reconcile_t(scene, 5)
    scene.run("jobs")
    scene.run("delete the Job of t")
    reconcile_t(scene, 1)
    scene.run("recover t")
    reconcile_t(scene, 3)
    scene.run("jobs")


def a_creation_comes_after_the_job_was_deleted(scene: CopyScene) -> None:
    scene.run("create t")
    reconcile_t(scene, 1)
    late = scene.run("storage t again", until="create Job")
    reconcile_t(scene, 2)
    scene.run("jobs")
    scene.run("delete the Job of t")
    scene.run("pods of jobs")
    scene.run(late)


def a_controller_dies_after_it_created_the_job(scene: CopyScene) -> None:
    scene.run("create t")
    reconcile_t(scene, 1)
    scene.run("storage t", until="replace GPUStorage t").stop()
    scene.run("jobs")
    scene.run("delete the Job of t")
    scene.run("pods of jobs")


Schedule = Callable[[CopyScene], None]
SHOWS: dict[Schedule, tuple[str, Break]] = {
    the_source_is_in_use: ("hold the source", hold_the_source),
    a_recovery_begins_while_the_source_is_being_freed: ("write the record again", write_the_record_again),
    a_recovery_begins_while_an_earlier_pod_runs: ("wait for earlier pods", wait_for_earlier_pods),
    a_creation_comes_after_the_job_was_deleted: ("know the Job by its UID", know_the_job_by_its_uid),
    a_controller_dies_after_it_created_the_job: ("record the Job first", record_the_job_first),
}


@pytest.mark.parametrize("schedule", SHOWS, ids=lambda each: each.__name__)
def test_a_schedule_holds(schedule: Schedule) -> None:
    _play(schedule)


@pytest.mark.parametrize(
    ("schedule", "rule"), [pytest.param(schedule, rule, id=name) for schedule, (name, rule) in SHOWS.items()]
)
def test_taking_a_rule_out_is_noticed(schedule: Schedule, rule: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch)
    with pytest.raises(Violation):
        _play(schedule)


def _play(schedule: Schedule) -> None:
    scene = CopyScene()
    schedule(scene)
    scene.rest()
    scene.check_end()
