"""What a Deployment says about itself."""

from __future__ import annotations

import msgspec
import pytest

from gpu_runtime.local.controllers.deployment.progress import (
    Rollout,
    find,
    next_check,
    pause_conditions,
    status_of,
)
from gpu_runtime.local.controllers.deployment.revisions import (
    find_current,
    new_set,
    next_revision,
    same_template,
    set_annotations,
    template_hash,
)
from gpu_runtime.local.kinds.workloads import Deployment, ReplicaSet
from unit.local_controllers.objects import NOW, a_deployment, a_set, ago

PROGRESSING = {
    "type": "Progressing",
    "status": "True",
    "reason": "ReplicaSetUpdated",
    "lastUpdateTime": ago(60),
    "lastTransitionTime": ago(90),
}


def counts(replicas: int, available: int) -> dict[str, int]:
    return {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}


def conditions(deployment: Deployment, present: ReplicaSet, *olds: ReplicaSet) -> dict[str, tuple[str, str]]:
    status = status_of(deployment, Rollout(present, olds), NOW)
    return {one.type: (one.status, one.reason) for one in status.conditions}


def test_a_complete_rollout_has_progressed_and_is_available() -> None:
    deployment = a_deployment(2, status={"conditions": [PROGRESSING]})
    assert conditions(deployment, a_set(replicas=2, status=counts(2, 2))) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


def test_a_rollout_that_moves_forward_moves_its_deadline() -> None:
    deployment = a_deployment(2, status={"conditions": [PROGRESSING], **counts(1, 0)})
    status = status_of(deployment, Rollout(a_set(replicas=2, status=counts(2, 1)), []), NOW)
    condition = find(status.conditions, "Progressing")
    assert condition is not None
    assert (condition.lastUpdateTime, condition.lastTransitionTime) == (NOW, ago(90))


def test_a_rollout_past_its_deadline_has_failed_to_progress() -> None:
    status = {"conditions": [PROGRESSING], **counts(1, 0), "updatedReplicas": 1}
    deployment = a_deployment(1, progressDeadlineSeconds=30, status=status)
    assert conditions(deployment, a_set(status=counts(1, 0)))["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_a_rollout_before_its_deadline_is_looked_at_again_then() -> None:
    status = {"conditions": [PROGRESSING], **counts(1, 0), "updatedReplicas": 1}
    deployment = a_deployment(1, progressDeadlineSeconds=100, status=status)
    after = status_of(deployment, Rollout(a_set(status=counts(1, 0)), []), NOW)
    assert next_check(deployment, after, NOW) == 41


def test_a_deployment_without_deadline_does_not_speak_of_progress() -> None:
    deployment = a_deployment(1, progressDeadlineSeconds=2**31 - 1, status={"conditions": [PROGRESSING]})
    assert "Progressing" not in conditions(deployment, a_set(status=counts(1, 0)))


def test_the_words_of_a_set_that_cannot_make_pods_are_passed_on() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: few"}
    status = status_of(a_deployment(), Rollout(a_set(status={**counts(0, 0), "conditions": [failure]}), []), NOW)
    condition = find(status.conditions, "ReplicaFailure")
    assert condition is not None
    assert (condition.reason, condition.message) == ("FailedCreate", "exceeded quota: few")


def test_the_failure_goes_with_its_cause() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    deployment = a_deployment(status={"conditions": [failure]})
    assert "ReplicaFailure" not in conditions(deployment, a_set(status=counts(1, 1)))


def test_pods_that_are_missing_count_as_unavailable() -> None:
    status = status_of(a_deployment(3), Rollout(a_set(replicas=3, status=counts(1, 1)), []), NOW)
    assert (status.availableReplicas, status.unavailableReplicas) == (1, 2)


def test_the_same_status_twice_is_equal() -> None:
    deployment, seen = a_deployment(2), Rollout(a_set(replicas=2, status=counts(2, 2)), [])
    first = status_of(deployment, seen, ago(10))
    assert status_of(msgspec.structs.replace(deployment, status=first), seen, NOW) == first


@pytest.mark.parametrize(
    ("paused", "before", "want"),
    [(True, "ReplicaSetUpdated", "DeploymentPaused"), (False, "DeploymentPaused", "DeploymentResumed")],
)
def test_a_pause_and_its_end_are_noted(paused: bool, before: str, want: str) -> None:
    deployment = a_deployment(paused=paused, status={"conditions": [{**PROGRESSING, "reason": before}]})
    condition = find(pause_conditions(deployment, NOW), "Progressing")
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", want)


def test_the_hash_of_a_template_depends_on_nothing_else() -> None:
    one, two = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert template_hash(one, None) == template_hash(two, 0) != template_hash(one, 1)


def test_a_set_is_recognised_by_its_template_without_the_hash() -> None:
    deployment = a_deployment()
    document = new_set(deployment, 1, 1)
    made = msgspec.convert(document, ReplicaSet)
    assert same_template(deployment, made)
    assert made.metadata.labels["pod-template-hash"] in made.metadata.name
    assert find_current(deployment, [a_set(), made]) is made


def test_going_back_gives_a_new_revision_and_remembers_the_old_one() -> None:
    old = a_set("one", metadata={"annotations": {"deployment.kubernetes.io/revision": "1"}})
    newer = a_set("two", metadata={"annotations": {"deployment.kubernetes.io/revision": "2"}})
    annotations = set_annotations(a_deployment(), old, next_revision([newer]))
    assert annotations == {
        "deployment.kubernetes.io/revision": "3",
        "deployment.kubernetes.io/revision-history": "1",
    }


def test_a_deployments_own_annotations_go_to_its_set() -> None:
    deployment = a_deployment(
        metadata={
            "annotations": {
                "kubernetes.io/change-cause": "because",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "deployment.kubernetes.io/revision": "7",
            }
        }
    )
    assert set_annotations(deployment, None, 1) == {
        "kubernetes.io/change-cause": "because",
        "deployment.kubernetes.io/revision": "1",
    }
