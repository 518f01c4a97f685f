"""What counts towards a quota."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.quantities import NANO, nanos
from gpu_runtime.local.usage import in_scope, missing_compute, usage_of


def container(name: str = "c", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": requests}}


def test_containers_add_up_and_the_largest_init_container_counts() -> None:
    spec = {
        "containers": [container(cpu="1", **{"nvidia.com/gpu": "1"}), container("d", cpu="500m")],
        "initContainers": [container("i", cpu="4"), container("j", cpu="2")],
    }
    used = usage_of("pods", {"spec": spec})
    assert used["requests.cpu"] == used["cpu"] == used["limits.cpu"] == nanos("4")
    assert used["requests.nvidia.com/gpu"] == NANO
    assert used["pods"] == used["count/pods"] == NANO


def test_a_sidecar_counts_while_the_pod_runs() -> None:
    sidecar = {**container("s", cpu="1"), "restartPolicy": "Always"}
    used = usage_of("pods", {"spec": {"containers": [container(cpu="1")], "initContainers": [sidecar]}})
    assert used["requests.cpu"] == nanos("2")


def test_a_finished_pod_uses_no_compute_but_is_still_an_object() -> None:
    used = usage_of("pods", {"spec": {"containers": [container(cpu="1")]}, "status": {"phase": "Succeeded"}})
    assert used == {"count/pods": NANO}


def test_what_a_container_does_not_state_is_named() -> None:
    spec = {"containers": [container(memory="1Gi"), {"name": "bare"}]}
    assert missing_compute(spec, ["requests.memory", "pods"]) == ["requests.memory for: bare"]


def test_claims_count_by_size_and_class() -> None:
    spec = {"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "fast"}
    used = usage_of("persistentvolumeclaims", {"spec": spec})
    assert used["requests.storage"] == used["fast.storageclass.storage.k8s.io/requests.storage"] == nanos("5Gi")


def test_a_scope_leaves_out_what_is_not_in_it() -> None:
    assert in_scope(["BestEffort"], "pods", {"spec": {"containers": [container(pods="1")]}})
    assert not in_scope(["BestEffort"], "pods", {"spec": {"containers": [container(cpu="1")]}})
    assert not in_scope(["BestEffort"], "services", {"spec": {}})
