"""Which pods a ReplicaSet lets go, and what it says of those it has."""

from __future__ import annotations

import asyncio

import pytest

from gpu_runtime.local.controllers.creating import in_growing_batches, pod_from
from gpu_runtime.local.controllers.replicaset import DELETION_COST, deletion_order, status_of
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.kinds.workloads import REPLICA_SETS
from unit.local_controllers.objects import NOW, a_pod, a_set, ago

ORDER = {
    "an unassigned pod before one on a node": [a_pod("a"), a_pod("b", nodeName="n")],
    "a pending pod before a running one": [
        a_pod("a", phase="Pending", nodeName="n"),
        a_pod("b", nodeName="n"),
    ],
    "one that is not ready before one that is": [
        a_pod("b", nodeName="n", ready=False),
        a_pod("a", nodeName="n", ready=True),
    ],
    "a cheap one before a dear one": [
        a_pod("b", nodeName="n", ready=True, metadata={"annotations": {DELETION_COST: "-5"}}),
        a_pod("a", nodeName="n", ready=True),
    ],
    "one that became ready late before one that was early": [
        a_pod("b", nodeName="n", ready=True, ready_since=ago(1)),
        a_pod("a", nodeName="n", ready=True, ready_since=ago(9)),
    ],
    "one with restarts before one without": [
        a_pod("b", nodeName="n", ready=False, status={"containerStatuses": [{"restartCount": 2}]}),
        a_pod("a", nodeName="n", ready=False),
    ],
    "a young one before an old one": [
        a_pod("b", nodeName="n", metadata={"creationTimestamp": ago(1)}),
        a_pod("a", nodeName="n", metadata={"creationTimestamp": ago(9)}),
    ],
}


@pytest.mark.parametrize("pods", ORDER.values(), ids=ORDER)
def test_the_pod_that_is_missed_least_goes_first(pods: list[Pod]) -> None:
    assert deletion_order(pods[::-1]) == pods


def test_pods_are_counted_by_what_they_are() -> None:
    pods = [
        a_pod("ready", ready=True, ready_since=ago(60)),
        a_pod("fresh", ready=True, ready_since=ago(1)),
        a_pod("not", ready=False),
        a_pod("ended", phase="Failed"),
        a_pod("ending", ready=True, metadata={"deletionTimestamp": NOW}),
    ]
    status = status_of(a_set(replicas=3, minReadySeconds=30), pods, None, NOW)
    counts = (status.replicas, status.readyReplicas, status.availableReplicas, status.terminatingReplicas)
    assert counts == (3, 2, 1, 1)


def test_a_failure_keeps_its_first_words_until_it_is_over() -> None:
    first = Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message="first")
    again = Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message="second")
    status = status_of(a_set(), [], first, ago(5))
    later = status_of(a_set(status={"replicas": 0, "conditions": status.conditions}), [], again, NOW)
    assert [one.message for one in later.conditions] == ["first"]
    assert status_of(a_set(status={"conditions": later.conditions}), [], None, NOW).conditions == []


async def test_batches_double_and_stop_at_the_first_that_fails() -> None:
    made = 0

    async def make() -> None:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        if made > 3:
            raise ValueError("full")

    failure = await in_growing_batches(100, make)
    assert isinstance(failure, ValueError)
    assert made == 7


def test_a_pod_is_made_as_the_template_says_and_belongs_to_its_owner() -> None:
    template = {"metadata": {"labels": {"a": "b"}, "name": "ignored"}, "spec": {"containers": []}}
    pod = pod_from(template, REPLICA_SETS, a_set("web"))
    assert pod["metadata"]["generateName"] == "web-"
    assert pod["metadata"]["labels"] == {"a": "b"}
    assert "name" not in pod["metadata"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "web"
