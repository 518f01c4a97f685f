"""What a Job's pods mean for it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.local.controllers.job.decisions import (
    TRACKING,
    backoff_in,
    expires_in,
    final_condition,
    outcome,
    tally,
    wanted_active,
)
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.workloads import Job
from unit.local_controllers.objects import NOW, a_job, a_pod, ago


def tracked(name: str, phase: str, **given: Any) -> Pod:
    metadata = {"finalizers": [TRACKING], **given.pop("metadata", {})}
    return a_pod(name, phase=phase, metadata=metadata, **given)


def decide(job: Job, *pods: Pod) -> str | None:
    decided = outcome(job, tally(job, pods), NOW)
    return decided.reason if decided is not None else None


def test_every_ended_pod_counts_once() -> None:
    status = {"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["gone", "known"], "failed": []}}
    job = a_job(completions=9, status=status)
    seen = tally(job, [tracked("known", "Succeeded"), tracked("new", "Succeeded"), tracked("runs", "Running")])
    assert (seen.succeeded, seen.failed, len(seen.active)) == (4, 0, 1)
    assert seen.uncounted.succeeded == ["known", "new"]
    assert [pod.metadata.name for pod in seen.releasable] == ["known", "new"]


def test_a_counted_pod_that_is_still_there_does_not_count_again() -> None:
    seen = tally(a_job(completions=2, status={"succeeded": 1}), [a_pod("counted", phase="Succeeded")])
    assert seen.succeeded == 1


def test_a_pod_that_was_written_down_as_failed_stays_so_however_it_ended() -> None:
    job = a_job(completions=1, status={"uncountedTerminatedPods": {"failed": ["a"]}})
    seen = tally(job, [tracked("a", "Succeeded")])
    assert (seen.succeeded, seen.failed) == (0, 1)


def test_a_pod_deleted_before_its_end_counts_as_failed() -> None:
    pod = tracked("p", "Running", metadata={"deletionTimestamp": NOW})
    assert tally(a_job(), [pod]).failed == 1
    assert tally(a_job(podReplacementPolicy="Failed"), [pod]).failed == 0


@pytest.mark.parametrize(
    ("job", "pods", "want"),
    [
        (a_job(completions=2), [tracked("a", "Succeeded")], None),
        (a_job(completions=2), [tracked("a", "Succeeded"), tracked("b", "Succeeded")], "CompletionsReached"),
        (a_job(), [tracked("a", "Succeeded"), tracked("b", "Running")], None),
        (a_job(), [tracked("a", "Succeeded")], "CompletionsReached"),
        (a_job(completions=0), [], "CompletionsReached"),
        (a_job(completions=1, backoffLimit=1), [tracked("a", "Failed")], None),
        (a_job(completions=1, backoffLimit=0), [tracked("a", "Failed")], "BackoffLimitExceeded"),
        (a_job(completions=1, activeDeadlineSeconds=5, status={"startTime": ago(6)}), [], "DeadlineExceeded"),
        (a_job(completions=1, activeDeadlineSeconds=5, status={"startTime": ago(4)}), [], None),
        (a_job(completions=1, suspend=True, activeDeadlineSeconds=5, status={"startTime": ago(6)}), [], None),
    ],
)
def test_a_job_ends_by_success_failures_or_time(job: Job, pods: list[Pod], want: str | None) -> None:
    assert decide(job, *pods) == want


@pytest.mark.parametrize(("limit", "restarts", "want"), [(0, 0, None), (0, 1, "BackoffLimitExceeded"), (2, 1, None)])
def test_restarts_in_place_count_as_failures(limit: int, restarts: int, want: str | None) -> None:
    job = a_job(completions=1, backoffLimit=limit, template={"spec": {"restartPolicy": "OnFailure"}})
    assert decide(job, tracked("a", "Running", status={"containerStatuses": [{"restartCount": restarts}]})) == want


def test_a_decision_once_made_stands() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
    job = a_job(completions=1, status={"conditions": [target]})
    assert decide(job, tracked("a", "Succeeded")) == "DeadlineExceeded"
    decided = outcome(job, tally(job, []), NOW)
    assert decided is not None
    assert (final_condition(decided).type, final_condition(decided).message) == ("Failed", "late")


def test_what_runs_when_a_job_fails_has_failed_and_what_runs_when_it_succeeds_is_not_counted() -> None:
    job, pods = a_job(completions=1, backoffLimit=0), [tracked("a", "Failed"), tracked("b", "Running")]
    failing = tally(job, pods, outcome(job, tally(job, pods), NOW))
    assert (failing.failed, len(failing.releasable)) == (2, 2)
    pods = [tracked("a", "Succeeded"), tracked("b", "Running")]
    ending = tally(job, pods, outcome(job, tally(job, pods), NOW))
    assert (ending.succeeded, ending.failed, len(ending.releasable)) == (1, 0, 2)


@pytest.mark.parametrize(
    ("job", "succeeded", "want"),
    [
        (a_job(completions=5, parallelism=2), 0, 2),
        (a_job(completions=5, parallelism=2), 4, 1),
        (a_job(completions=5, parallelism=2, suspend=True), 0, 0),
        (a_job(parallelism=3), 0, 3),
        (a_job(parallelism=3), 1, 0),
    ],
)
def test_as_many_pods_run_as_are_still_needed(job: Job, succeeded: int, want: int) -> None:
    pods = [tracked(f"p{number}", "Succeeded") for number in range(succeeded)]
    assert wanted_active(job, tally(job, pods)) == want


def ended(name: str, phase: str, seconds_ago: float) -> Pod:
    state = {"terminated": {"exitCode": 1, "finishedAt": ago(seconds_ago)}}
    return a_pod(name, phase=phase, status={"containerStatuses": [{"state": state}]})


def test_each_failure_doubles_the_wait_until_a_success() -> None:
    assert backoff_in([], NOW) == 0
    assert backoff_in([ended("a", "Failed", 1)], NOW) == 9
    assert backoff_in([ended("a", "Failed", 30), ended("b", "Failed", 1)], NOW) == 19
    assert backoff_in([ended("a", "Failed", 30), ended("b", "Succeeded", 1)], NOW) == 0


def test_a_finished_job_lives_on_for_its_time() -> None:
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": ago(10)}
    assert expires_in(a_job(ttlSecondsAfterFinished=30, status={"conditions": [complete]}), NOW) == 20
    assert expires_in(a_job(status={"conditions": [complete]}), NOW) is None
    assert expires_in(a_job(ttlSecondsAfterFinished=30), NOW) is None
