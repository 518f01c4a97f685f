"""I7 and I8: each clause, in a story where it holds and in one where it does not."""

from __future__ import annotations

from typing import Any

from equipment.builders import Builder, a_deployment, a_storage, a_unit
from equipment.builders.base import new_document
from equipment.judge import data_kept, mounted, one_writer
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, STORAGE_UID
from unit.equipment.story import Story

HERE = "runtime-instance"
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def a_claim(storage: Builder, size: str = "1Gi") -> Builder:
    claim = Builder(new_document("v1", "PersistentVolumeClaim", "data", HERE)).annotated({STORAGE_UID: storage.uid})
    return claim.spec(resources={"requests": {"storage": size}})


def a_mounting_deployment(unit: Builder, replicas: int = 1) -> Builder:
    template: dict[str, Any] = {"spec": {"volumes": VOLUMES}}
    return a_deployment(unit.name, HERE).controlled_by(unit).spec(replicas=replicas, template=template)


def a_pod(owner: Builder) -> Builder:
    pod = Builder(new_document("v1", "Pod", f"{owner.name}-pod", HERE)).controlled_by(owner)
    return pod.spec(volumes=VOLUMES).status(phase="Running")


def held(storage: Builder, unit: Builder) -> Builder:
    return storage.annotated({ATTACHED_TO: f'{{"unit": "{unit.name}", "uid": "{unit.uid}"}}'})


def test_data_that_goes_with_its_storage_is_no_loss() -> None:
    story = Story()
    storage = story.create(a_storage("data"))
    claim = story.create(a_claim(storage))
    storage = story.update(storage.being_deleted())
    story.delete(story.update(claim.being_deleted()))
    story.delete(storage)
    assert data_kept(story.watched()) == []


def test_data_that_goes_before_its_storage_is_deleted_is_seen() -> None:
    story = Story()
    claim = story.create(a_claim(story.create(a_storage("data"))))
    story.delete(claim)
    [violation] = data_kept(story.watched())
    assert "is wanted" in violation


def test_a_claim_that_a_person_deletes_must_still_stay_until_its_storage_goes() -> None:
    story = Story()
    storage = story.create(a_storage("data"))
    claim = story.update(story.create(a_claim(storage)).being_deleted())
    assert len(data_kept(story.watched())) == 1
    assert data_kept(story.watched(), by_hand={"data"}) == []
    story.delete(claim)
    assert len(data_kept(story.watched(), by_hand={"data"})) == 1


def test_data_that_goes_under_its_holder_or_under_a_pod_is_seen() -> None:
    story = Story()
    unit = story.create(a_unit("u1"))
    storage = story.create(a_storage("data"))
    claim = story.create(a_claim(storage))
    story.create(a_pod(story.create(a_mounting_deployment(unit))))
    story.update(held(storage, unit).being_deleted())
    story.delete(claim)
    violations = data_kept(story.watched())
    assert [any(words in each for each in violations) for words in ("is held by", "Deployment", "Pod")] == [True] * 3


def test_a_claim_that_shrinks_or_is_made_again_is_seen() -> None:
    story = Story()
    storage = story.create(a_storage("data"))
    story.update(story.update(story.create(a_claim(storage)).spec(resources={"requests": {"storage": "2Gi"}})))
    assert data_kept(story.watched()) == []
    story.create(a_claim(storage, "1Gi"))
    [violation] = data_kept(story.watched())
    assert "made again" in violation
    story = Story()
    claim = story.create(a_claim(story.create(a_storage("data")), "2Gi"))
    story.update(claim.spec(resources={"requests": {"storage": "1024Mi"}}))
    [violation] = data_kept(story.watched())
    assert "asks for 1Gi" in violation


def test_units_that_mount_a_claim_one_after_the_other_are_one_writer() -> None:
    story = Story()
    one, two = story.create(a_unit("u1")), story.create(a_unit("u2"))
    story.create(a_mounting_deployment(two, replicas=0))
    deployment = story.create(a_mounting_deployment(one))
    pod = story.create(a_pod(deployment))
    story.update(deployment.spec(replicas=0))
    story.delete(pod)
    other = story.create(a_mounting_deployment(two))
    story.create(a_pod(other))
    assert one_writer(story.watched()) == []
    assert mounted(story.watched()) == {one.uid, two.uid}


def test_two_units_whose_pods_or_deployments_mount_a_claim_at_once_are_seen() -> None:
    story = Story()
    first = story.create(a_mounting_deployment(story.create(a_unit("u1"))))
    story.create(a_pod(first))
    first = story.update(first.spec(replicas=0))
    story.create(a_mounting_deployment(story.create(a_unit("u2"))))
    [violation] = one_writer(story.watched())
    assert "mounted twice: Pod" in violation
    story.update(first.spec(replicas=1))
    assert any("mounted twice: Deployment" in each for each in one_writer(story.watched()))


def test_a_copy_that_reads_what_a_unit_mounts_is_seen() -> None:
    story = Story()
    story.create(a_mounting_deployment(story.create(a_unit("u1"))))
    job = Builder(new_document("batch/v1", "Job", "copy", HERE)).spec(template={"spec": {"volumes": VOLUMES}})
    story.create(job.spec(suspend=True))
    assert one_writer(story.watched()) == []
    story.create(a_pod(story.create(job)))
    assert len(one_writer(story.watched())) == 2


def test_pods_that_serve_files_only_read() -> None:
    story = Story()
    story.create(a_mounting_deployment(story.create(a_unit("u1"))))
    story.create(a_pod(story.create(a_mounting_deployment(story.create(a_storage("data"))))))
    assert one_writer(story.watched()) == []


def test_a_record_that_changes_hands_is_seen() -> None:
    story = Story()
    one, two = story.create(a_unit("u1")), story.create(a_unit("u2"))
    storage = story.create(a_storage("data"))
    story.update(held(storage, one))
    story.update(storage)
    story.update(held(storage, two))
    assert one_writer(story.watched()) == []
    story.update(held(storage, one))
    [violation] = one_writer(story.watched())
    assert "its record went from" in violation
