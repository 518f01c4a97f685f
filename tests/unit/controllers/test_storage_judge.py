"""When a storage is freed whose holder seems to have left, and what keeps it held. All of it is read live."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from equipment.builders import a_storage, a_unit, an_operation
from equipment.builders.base import Builder, new_document
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, FENCE
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.api.v1alpha1.labels import UNIT
from gpu_runtime.controllers.gpustorage.judge import AGAIN_SECONDS
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.kube import Query
from gpu_runtime.kube.decoding import Listing, Skipped
from unit.controllers.table import CLOCK, Row, World
from unit.controllers.test_gpustorage_table import BOUND, CLASS, KEY, READY

GONE = Attachment(unit="demo", uid="unit-uid")
COPY = Attachment(storage="copy", uid="copy-uid")
TARGET = a_storage("copy").with_uid("copy-uid").status(claimName="copy", prepare={"phase": "Running"})
MOUNTING = {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}


def held(holder: Attachment) -> Builder:
    return READY.annotated(attached_to(holder))


def a_child(api: str, kind: str, labels: dict[str, str], **spec: Any) -> Builder:
    """Of the holder, with a pod that mounts the storage."""
    child = Builder(new_document(api, kind, "demo", "runtime-instance")).labelled(labels)
    return child.spec(template=MOUNTING, **spec).status(observedGeneration=1)


def a_pod(labels: dict[str, str], phase: str) -> Builder:
    pod = Builder(new_document("v1", "Pod", "demo", "runtime-instance")).labelled(labels)
    return pod.spec(**MOUNTING["spec"]).status(phase=phase)


OF_UNIT, OF_COPY = {UNIT: "demo"}, {CONTROLLED_BY: "copy-uid"}
DEPLOYMENT = a_child("apps/v1", "Deployment", OF_UNIT, replicas=0)
REPLICA_SET = a_child("apps/v1", "ReplicaSet", OF_UNIT, replicas=0)
JOB = a_child("batch/v1", "Job", OF_COPY, suspend=False)
BY_OPERATION = Attachment(unit="demo", operation="op-uid", operationName="op")

KEPT: dict[str, tuple[Attachment, Sequence[Builder]]] = {
    "a Deployment that asks for a pod": (GONE, [DEPLOYMENT.spec(replicas=1)]),
    "a Deployment whose controller has not seen that it asks for none": (GONE, [DEPLOYMENT.at_generation(2)]),
    "a ReplicaSet that asks for a pod": (GONE, [REPLICA_SET.spec(replicas=1)]),
    "a ReplicaSet whose controller has not seen that it asks for none": (GONE, [REPLICA_SET.at_generation(2)]),
    "a pod that runs": (GONE, [a_pod(OF_UNIT, "Running")]),
    "a pod that somebody took from its ReplicaSet": (GONE, [a_pod({}, "Running")]),
    "an operation that is under way": (BY_OPERATION, [an_operation("op").with_uid("op-uid").metadata(name="op")]),
    "a Job of a copy that is gone": (COPY, [JOB]),
    "a pod of a copy that is gone": (COPY, [a_pod(OF_COPY, "Running")]),
}
FREED: dict[str, tuple[Attachment, Sequence[Builder]]] = {
    "a holder of which nothing is left": (GONE, []),
    "another unit of the name": (GONE, [a_unit("demo").with_uid("later-uid").mounting("data")]),
    "a Deployment that asks for no pod": (GONE, [DEPLOYMENT]),
    "a ReplicaSet that asks for no pod": (GONE, [REPLICA_SET]),
    "a pod that has ended": (GONE, [a_pod(OF_UNIT, "Succeeded")]),
    "a pod that fills it or serves its files": (GONE, [a_pod({CONTROLLED_BY: "storage-uid"}, "Running")]),
    "another operation of the name": (
        BY_OPERATION,
        [an_operation("op").with_uid("later-uid").metadata(name="op")],
    ),
    "another storage of the copy's name": (COPY, [TARGET.with_uid("later-uid")]),
    "a copy that failed": (COPY, [TARGET.status(prepare={"phase": "Failed"})]),
    "a Job that never began": (COPY, [JOB.spec(suspend=True)]),
    "a Job that is over": (COPY, [JOB.condition("Complete", "True", "")]),
    "a holder that comes from a clock far ahead": (
        Attachment(unit="demo", uid="unit-uid", since=CLOCK.now() + timedelta(hours=1)),
        [],
    ),
}


def is_held(world: World) -> bool:
    found = world.api.find("GPUStorage", "data")
    assert found is not None
    return ATTACHED_TO in found["metadata"].get("annotations", {})


@mutant("controllers/gpustorage/judge.py", " or not made.is_settled()):", "):")
@mutant("controllers/gpustorage/judge.py", "await self._no_pod_mounts(storage)", "pass")
@mutant("controllers/gpustorage/judge.py", "if job.can_mount(storage.name):", "if False:")
@mutant("controllers/gpustorage/reconcile.py", "Result(soonest(result.requeue_after, verdict.requeue_after))", "result")
@pytest.mark.parametrize(("holder", "there"), KEPT.values(), ids=KEPT)
async def test_a_storage_stays_held_because_of(holder: Attachment, there: Sequence[Builder]) -> None:
    world = World(Row([held(holder), BOUND, CLASS, *there]))
    result = await world.reconcile("gpustorage", KEY)
    assert is_held(world)
    assert result.requeue_after == AGAIN_SECONDS, "nothing else looks again"


@mutant("controllers/gpustorage/judge.py", 'prepare.phase in ("Succeeded", "Failed")', 'prepare.phase == "Succeeded"')
@mutant("controllers/gpustorage/judge.py", "and not fills_or_serves:", "and True:")
@mutant("controllers/gpustorage/mounters.py", "self.status.phase not in ENDED and ", "")
@mutant("controllers/gpustorage/judge.py", "if -YOUNG_SECONDS < age < YOUNG_SECONDS", "if age < YOUNG_SECONDS")
@pytest.mark.parametrize(("holder", "there"), FREED.values(), ids=FREED)
async def test_a_storage_is_not_kept_by(holder: Attachment, there: Sequence[Builder]) -> None:
    world = World(Row([held(holder), BOUND, CLASS, *there]))
    await world.reconcile("gpustorage", KEY)
    assert not is_held(world)


@mutant("controllers/gpustorage/judge.py", "await self._touch(JOB_MAKERS, job.metadata)", "pass")
async def test_a_job_is_touched_before_the_source_of_its_copy_is_freed() -> None:
    world = World(Row([held(COPY), BOUND, CLASS, JOB.spec(suspend=True)]))
    await world.reconcile("gpustorage", KEY)
    assert world.api.writes[:2] == ["patch Job demo", "patch GPUStorage data"]
    found = world.api.find("Job", "demo")
    assert found is not None
    assert found["metadata"]["annotations"][FENCE]


async def test_a_record_that_nobody_can_read_is_left_to_a_person() -> None:
    world = World(Row([READY.annotated({ATTACHED_TO: "{"}), BOUND, CLASS]))
    await world.reconcile("gpustorage", KEY)
    assert is_held(world)


@mutant("controllers/gpustorage/judge.py", "if holder is None or holder is UNREADABLE:", "if holder is None:")
async def test_a_record_that_somebody_breaks_meanwhile_is_left_to_a_person_too() -> None:
    world = World(Row([held(GONE), BOUND, CLASS]))
    world.api.put(READY.annotated({ATTACHED_TO: "{"}))  # the caches do not show it
    await world.reconcile("gpustorage", KEY)
    assert is_held(world)


@mutant("controllers/gpustorage/judge.py", "if listing.skipped:", "if False:")
@pytest.mark.parametrize("kind", ["ReplicaSet", "Pod"])
async def test_a_child_that_cannot_be_read_may_mount_the_storage(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Row([held(GONE), BOUND, CLASS]))

    async def unreadable(query: Query[Any]) -> Listing[Any]:
        skipped = [Skipped(Key("runtime-instance", "demo"), "", "no object")] if query.resource.kind == kind else []
        return Listing([], skipped, "1")

    monkeypatch.setattr(world.api, "list", unreadable)
    await world.reconcile("gpustorage", KEY)
    assert is_held(world)
