"""Quotas, nodes, Services, volumes and statuses: the smaller decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from gpu_runtime.local.controllers.endpoints import slices
from gpu_runtime.local.controllers.nodes import Heartbeats
from gpu_runtime.local.controllers.quota import ResourceQuota, usage
from gpu_runtime.local.controllers.selectors import matches
from gpu_runtime.local.controllers.status_writer import status_patch
from gpu_runtime.local.controllers.volumes.matching import find_volume, new_volume
from gpu_runtime.local.kinds.machines import Lease
from gpu_runtime.local.kinds.services import Service
from gpu_runtime.local.kinds.storage import Claim, PersistentVolume, StorageClass
from gpu_runtime.local.kinds.wire import LabelSelector, Requirement
from gpu_runtime.local.kinds.workloads import JobStatus, UncountedPods
from gpu_runtime.local.quantities import NANO
from gpu_runtime.local.usage import usage_of
from unit.local_controllers.objects import NOW, a_pod, ago, asking


def quota(*hard: str, each: str = "9", scopes: tuple[str, ...] = ()) -> ResourceQuota:
    spec = {"hard": dict.fromkeys(hard, each), "scopes": list(scopes)}
    return msgspec.convert({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec}, ResourceQuota)


def a_claim(name: str = "c", size: str = "1Gi", **spec: Any) -> Claim:
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": fields}, Claim)


def a_volume(name: str, size: str = "1Gi", **spec: Any) -> PersistentVolume:
    fields = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": fields}, PersistentVolume)


def test_a_quota_counts_pods_that_still_run() -> None:
    pods = [a_pod("a", containers=[asking(cpu="250m", gpu="1")]), a_pod("b", containers=[asking(cpu="1")])]
    pods.append(a_pod("ended", phase="Succeeded", containers=[asking(cpu="5")]))
    names = ("pods", "requests.cpu", "cpu", "requests.nvidia.com/gpu", "limits.memory")
    assert usage(quota(*names), pods, [], lambda _: 0) == {
        "pods": "2",
        "requests.cpu": "1250m",
        "cpu": "1250m",
        "requests.nvidia.com/gpu": "1",
        "limits.memory": "0",
    }


def test_a_quota_counts_claims_and_any_kind() -> None:
    claims = [a_claim("a", "1Gi", storageClassName="fast"), a_claim("b", "512Mi")]
    names = (
        "requests.storage",
        "fast.storageclass.storage.k8s.io/requests.storage",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
        "count/deployments.apps",
        "configmaps",
    )
    counted = usage(quota(*names, each="9Gi"), [], claims, {"deployments.apps": 3, "configmaps": 2}.__getitem__)
    assert list(counted.values()) == ["1536Mi", "1Gi", "1", "3", "2"]


def test_the_controller_counts_what_admission_charged() -> None:
    """They once disagreed on sidecars, and what the one charged the other gave back."""
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    init = {"name": "init", "resources": {"limits": {"cpu": "3", "nvidia.com/gpu": "1"}}}
    main = {"name": "main", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "2"}}}
    pod = a_pod("p", containers=[main], initContainers=[sidecar, init])
    names = ("limits.cpu", "limits.nvidia.com/gpu")
    assert usage(quota(*names), [pod], [], lambda _: 0) == {"limits.cpu": "4", "limits.nvidia.com/gpu": "3"}
    charged = usage_of("pods", msgspec.to_builtins(pod))
    assert {name: charged[name] for name in names} == {"limits.cpu": 4 * NANO, "limits.nvidia.com/gpu": 3 * NANO}


def test_a_quota_with_a_scope_counts_only_pods_in_it() -> None:
    pods = [a_pod("plain"), a_pod("sized", containers=[asking(cpu="1")]), a_pod("short", activeDeadlineSeconds=5)]
    assert usage(quota("pods", scopes=("BestEffort",)), pods, [], lambda _: 0) == {"pods": "2"}
    assert usage(quota("pods", scopes=("Terminating",)), pods, [], lambda _: 0) == {"pods": "1"}


def lease(seconds: float) -> Lease:
    return msgspec.convert({"metadata": {"name": "n"}, "spec": {"renewTime": ago(seconds)}}, Lease)


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.seconds


def test_a_node_is_silent_from_the_last_change_of_its_lease_that_we_saw() -> None:
    clock = HandClock()
    heartbeats = Heartbeats(clock)
    assert heartbeats.silent_for("n", lease(86400)) == 0  # stopped over night, and not lost
    clock.seconds = 30
    assert heartbeats.silent_for("n", lease(86400)) == 30
    assert heartbeats.silent_for("n", lease(1)) == 0
    clock.seconds = 80
    assert heartbeats.silent_for("n", lease(1)) == 50
    heartbeats.forget("n")
    assert heartbeats.silent_for("n", None) == 0


def service(**spec: Any) -> Service:
    metadata = {"name": "web", "namespace": "ns", "uid": "s"}
    fields = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "page"}], **spec}
    return msgspec.convert({"metadata": metadata, "spec": fields}, Service)


def serving(name: str, port: int = 8080, **given: Any) -> Any:
    containers = [{"name": "c", "ports": [{"name": "page", "containerPort": port}]}]
    return a_pod(name, containers=containers, status={"podIP": "10.0.0.1"}, nodeName="n", **given)


def test_a_named_port_is_each_pods_own() -> None:
    made = slices(service(), [serving("a"), serving("b", 9090, ready=True), serving("c")])
    ports = {one.ports[0].port: len(one.endpoints or []) for one in made if one.ports}
    assert ports == {8080: 2, 9090: 1}
    assert len({one.metadata.name for one in made}) == 2


def test_an_endpoint_is_ready_serving_or_going() -> None:
    pods = [
        serving("a-ready", ready=True),
        serving("b-not", ready=False),
        serving("c-going", ready=True, metadata={"deletionTimestamp": NOW}),
        serving("d-ended", phase="Failed"),
    ]
    [made] = slices(service(), pods)
    shown = [(one.conditions.ready, one.conditions.serving, one.conditions.terminating) for one in made.endpoints or []]
    assert shown == [(True, True, False), (False, False, False), (False, True, True)]
    [open_to_all] = slices(service(publishNotReadyAddresses=True), pods[1:2])
    assert [one.conditions.ready for one in open_to_all.endpoints or []] == [True]


def test_a_service_without_pods_has_one_empty_slice() -> None:
    [made] = slices(service(clusterIP="None"), [])
    assert (made.endpoints, made.ports) == ([], [])
    assert made.metadata.labels["service.kubernetes.io/headless"] == ""


def test_a_claim_gets_the_smallest_volume_that_serves_it() -> None:
    volumes = [a_volume("large", "9Gi"), a_volume("fits", "2Gi"), a_volume("small", "1Gi")]
    volumes += [a_volume("shared", "2Gi", accessModes=["ReadWriteMany"]), a_volume("other", storageClassName="x")]
    found = find_volume(a_claim(size="1500Mi"), volumes)
    assert found is not None
    assert found.metadata.name == "fits"


def test_a_volume_that_is_kept_for_somebody_is_his() -> None:
    kept = a_volume("kept", claimRef={"namespace": "ns", "name": "c", "uid": "uid-c"})
    taken = a_volume("taken", claimRef={"namespace": "ns", "name": "c", "uid": "another"})
    assert find_volume(a_claim(), [taken, kept]) is kept
    assert find_volume(a_claim(), [taken]) is None
    assert find_volume(a_claim(volumeName="taken"), [taken]) is None


def test_a_new_volume_is_made_for_exactly_one_claim() -> None:
    storage_class = msgspec.convert({"metadata": {"name": "fast"}, "provisioner": "p"}, StorageClass)
    made = msgspec.convert(new_volume(a_claim(), storage_class, "/x"), PersistentVolume)
    assert find_volume(a_claim(), [made]) is made
    assert find_volume(a_claim("other"), [made]) is None


def test_a_status_patch_names_what_changed_and_removes_what_is_gone() -> None:
    before = JobStatus(active=2, ready=1, uncountedTerminatedPods=UncountedPods(succeeded=["a"]))
    after = JobStatus(ready=1, succeeded=1, uncountedTerminatedPods=UncountedPods())
    assert status_patch(before, after) == {
        "active": None,
        "succeeded": 1,
        "uncountedTerminatedPods": {"succeeded": None},
    }
    assert status_patch(after, after) == {}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "want"),
    [
        ("In", ["a", "b"], {"k": "a"}, True),
        ("In", ["a"], {}, False),
        ("NotIn", ["a"], {}, True),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("Exists", [], {"k": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
    ],
)
def test_a_selector_means_the_objects_that_fit_it(
    operator: str, values: list[str], labels: dict[str, str], want: bool
) -> None:
    requirement = Requirement(key="k", operator=operator, values=values)
    assert matches(LabelSelector(matchExpressions=[requirement]), labels) is want


def test_an_empty_selector_means_nothing() -> None:
    assert not matches(LabelSelector(), {"a": "b"})
