"""The most useful cause is told, once, and none where there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpu_runtime.controllers.child_kinds.workloads import PodView, ReplicaSetView
from gpu_runtime.controllers.startup_failure import startup_failure, startup_progress

Document = dict[str, Any]
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


def a_pod(name: str = "p", *, node: str = "", ending: bool = False, **status: Any) -> PodView:
    meta = {"name": name} | ({"deletionTimestamp": "2030-01-01T00:00:00Z"} if ending else {})
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": status}, PodView)


def a_replica_set(*conditions: Document) -> ReplicaSetView:
    return msgspec.convert({"metadata": {"name": "rs"}, "status": {"conditions": conditions}}, ReplicaSetView)


def waiting(reason: str, words: str = "", **last: Any) -> Document:
    state = {"waiting": {"reason": reason, "message": words}}
    return {"name": "c", "state": state, "lastState": {"terminated": last} if last else {}}


def ended(**terminated: Any) -> Document:
    return {"name": "c", "state": {"terminated": terminated}}


RUNNING: Document = {"name": "c", "ready": True, "state": {"running": {}}}
REFUSED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: tight"}

CASES: dict[str, tuple[list[PodView], list[Document], str | None]] = {
    "a running pod": ([a_pod(containerStatuses=[RUNNING])], [], None),
    "no pod yet": ([], [], None),
    "a container that is being created": ([a_pod(containerStatuses=[waiting("ContainerCreating")])], [], None),
    "init containers that go first": ([a_pod(containerStatuses=[waiting("PodInitializing")])], [], None),
    "a waiting container without a reason": ([a_pod(containerStatuses=[waiting("")])], [], None),
    "an image that is not there": (
        [a_pod(containerStatuses=[waiting("ErrImagePull", "not found")])],
        [],
        "Pod p container c: ErrImagePull: not found",
    ),
    "a reason without words": (
        [a_pod(containerStatuses=[waiting("InvalidImageName")])],
        [],
        "Pod p container c: InvalidImageName",
    ),
    "a crash loop tells how the last run ended": (
        [a_pod(containerStatuses=[waiting("CrashLoopBackOff", "back-off 5m", exitCode=1, message=" boom\n")])],
        [],
        "Pod p container c: CrashLoopBackOff: exited with code 1: boom",
    ),
    "a crash loop that nothing is known of": (
        [a_pod(containerStatuses=[waiting("CrashLoopBackOff", "back-off 5m")])],
        [],
        "Pod p container c: CrashLoopBackOff: back-off 5m",
    ),
    "a container that ended well": ([a_pod(containerStatuses=[ended(exitCode=0, reason="Completed")])], [], None),
    "a container that ended badly": (
        [a_pod(containerStatuses=[ended(exitCode=2, reason="Error")])],
        [],
        "Pod p container c: exited with code 2",
    ),
    "a container that was killed for memory": (
        [a_pod(containerStatuses=[ended(exitCode=137, reason="OOMKilled")])],
        [],
        "Pod p container c: exited with code 137 (OOMKilled)",
    ),
    "a container that a signal ended": (
        [a_pod(containerStatuses=[ended(signal=9)])],
        [],
        "Pod p container c: ended by signal 9",
    ),
    "an init container": (
        [a_pod(initContainerStatuses=[ended(exitCode=1)], containerStatuses=[waiting("PodInitializing")])],
        [],
        "Pod p container c: exited with code 1",
    ),
    "a pod that was evicted": (
        [a_pod(phase="Failed", reason="Evicted", message="low on memory")],
        [],
        "Pod p: Evicted: low on memory",
    ),
    "a pod that failed without a word": ([a_pod(phase="Failed")], [], "Pod p: failed without a reason"),
    "a pod that fits nowhere": ([a_pod(conditions=[UNSCHEDULABLE])], [], "Pod p cannot be scheduled: 0/3 nodes"),
    "a pod that is on its way out": ([a_pod(ending=True, containerStatuses=[ended(exitCode=137)])], [], None),
    "a quota": ([], [REFUSED], "no pod can be created: exceeded quota: tight"),
    "a quota that has room again": ([], [{**REFUSED, "status": "False"}], None),
    "a crash is told before a pod that fits nowhere": (
        [a_pod("a", conditions=[UNSCHEDULABLE]), a_pod("b", containerStatuses=[ended(exitCode=1)])],
        [],
        "Pod b container c: exited with code 1",
    ),
    "of equals the first by name, in whatever order they come": (
        [a_pod("b", conditions=[UNSCHEDULABLE]), a_pod("a", conditions=[UNSCHEDULABLE])],
        [REFUSED],
        "Pod a cannot be scheduled: 0/3 nodes",
    ),
}


@pytest.mark.parametrize(("pods", "conditions", "want"), CASES.values(), ids=CASES)
def test_the_cause_that_is_told_of(pods: list[PodView], conditions: list[Document], want: str | None) -> None:
    assert startup_failure(pods, a_replica_set(*conditions)) == want
    assert startup_failure(reversed(pods), a_replica_set(*conditions)) == want


PROGRESS = {
    "waits for a node": (a_pod(), "Pod p waits for a node"),
    "was just placed": (a_pod(node="n"), "Pod p on node n is starting: ContainerCreating"),
    "is starting": (
        a_pod(node="n", containerStatuses=[waiting("PodInitializing")]),
        "Pod p on node n is starting: PodInitializing",
    ),
    "runs": (
        a_pod(node="n", containerStatuses=[{**RUNNING, "ready": False}]),
        "Pod p on node n runs and is not ready yet",
    ),
    "runs once more": (
        a_pod(node="n", containerStatuses=[{**RUNNING, "lastState": {"terminated": {"exitCode": 1}}}]),
        "Pod p on node n runs and is not ready yet; it was restarted after it exited with code 1",
    ),
}


@pytest.mark.parametrize(("pod", "want"), PROGRESS.values(), ids=PROGRESS)
def test_how_far_a_pod_is_that(pod: PodView, want: str) -> None:
    assert startup_progress(pod) == want
