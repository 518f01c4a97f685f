"""Which node a pod gets, and what is said when none can take it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpu_runtime.api.meta.object import Key
from gpu_runtime.local.controllers.scheduler.claims import assess_claims
from gpu_runtime.local.controllers.scheduler.fitting import Place, explain, explain_for_all, misfit
from gpu_runtime.local.controllers.scheduler.loop import is_waiting, waiting_order
from gpu_runtime.local.controllers.scheduler.requests import requests, used_by
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.storage import Claim, StorageClass
from unit.local_controllers.objects import a_node, a_pod, ago, asking


def place(*pods: Pod, **node: Any) -> Place:
    return Place(a_node(**node), used_by(pods))


def reasons(pod: Pod, *pods: Pod, **node: Any) -> tuple[str, ...]:
    found = misfit(pod, place(*pods, **node))
    return found.reasons if found is not None else ()


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


AFFINITY = "node(s) didn't match Pod's node affinity/selector"

FITS: dict[str, tuple[Pod, list[Pod], dict[str, Any], tuple[str, ...]]] = {
    "an empty pod fits an empty node": (a_pod(), [], {}, ()),
    "what is free can be asked for": (a_pod(containers=[asking(cpu="4")]), [], {}, ()),
    "what is used cannot": (
        a_pod(containers=[asking(cpu="1")]),
        [a_pod(containers=[asking(cpu="3500m")])],
        {},
        ("Insufficient cpu",),
    ),
    "every lack is named": (
        a_pod(containers=[asking(cpu="9", memory="9Gi", gpu="1")]),
        [],
        {},
        ("Insufficient cpu", "Insufficient memory", "Insufficient nvidia.com/gpu"),
    ),
    "a node takes so many pods and no more": (a_pod(), [a_pod(f"p{n}") for n in range(10)], {}, ("Too many pods",)),
    "a cordoned node takes none": (a_pod(), [], {"unschedulable": True}, ("node(s) were unschedulable",)),
    "nor does one that is not ready": (a_pod(), [], {"ready": "Unknown"}, ("node(s) were not ready",)),
    "a selector needs its label": (a_pod(nodeSelector={"disk": "fast"}), [], {}, (AFFINITY,)),
    "and takes it": (a_pod(nodeSelector={"disk": "fast"}), [], {"labels": {"disk": "fast"}}, ()),
    "one matching term is enough": (
        a_pod(affinity=required(term("disk", "Exists"), term("gen", "Gt", "3"))),
        [],
        {"labels": {"gen": "4"}},
        (),
    ),
    "no matching term is not": (
        a_pod(affinity=required(term("gen", "Lt", "3"))),
        [],
        {"labels": {"gen": "4"}},
        (AFFINITY,),
    ),
    "only the first obstacle is named": (
        a_pod(nodeSelector={"disk": "fast"}, containers=[asking(cpu="99")]),
        [],
        {},
        (AFFINITY,),
    ),
}


@pytest.mark.parametrize(("pod", "others", "node", "want"), FITS.values(), ids=FITS)
def test_a_pod_fits_or_is_told_why_not(
    pod: Pod, others: list[Pod], node: dict[str, Any], want: tuple[str, ...]
) -> None:
    assert reasons(pod, *others, **node) == want


def test_init_containers_need_room_one_at_a_time_and_sidecars_all_along() -> None:
    pod = a_pod(
        initContainers=[asking(cpu="3"), {**asking(cpu="500m"), "restartPolicy": "Always"}, asking(cpu="1")],
        containers=[asking(cpu="1"), asking(cpu="1")],
    )
    assert requests(pod)["cpu"] == 3 * 10**9
    assert requests(a_pod(containers=[asking(cpu="1")], overhead={"cpu": "250m"}))["cpu"] == 1_250_000_000


def test_the_words_count_the_nodes_behind_each_reason() -> None:
    big, busy = a_pod(containers=[asking(cpu="99")]), a_pod(containers=[asking(cpu="3")])
    misfits = [misfit(big, place()), misfit(busy, place(a_pod(containers=[asking(cpu="2")])))]
    assert explain([one for one in misfits if one is not None]) == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available:"
        " 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )
    assert explain([]) == "no nodes available to schedule pods"
    assert explain_for_all(3, "why") == "0/3 nodes are available: why. not found"


def test_important_pods_come_first_and_then_those_that_waited_longest() -> None:
    late = a_pod("late", metadata={"creationTimestamp": ago(1)})
    early = a_pod("early", metadata={"creationTimestamp": ago(9)})
    important = a_pod("important", priority=5, metadata={"creationTimestamp": ago(0)})
    assert [pod.metadata.name for pod in waiting_order([late, important, early])] == ["important", "early", "late"]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (a_pod(phase="Pending"), True),
        (a_pod(phase="Pending", nodeName="n"), False),
        (a_pod(phase="Pending", schedulerName="other"), False),
        (a_pod(phase="Pending", schedulingGates=[{"name": "g"}]), False),
        (a_pod(phase="Pending", metadata={"deletionTimestamp": ago(1)}), False),
        (a_pod(phase="Failed"), False),
    ],
)
def test_only_pods_that_are_ours_to_place_wait(pod: Pod, want: bool) -> None:
    assert is_waiting(pod) is want


def test_claims_hold_a_pod_back_or_wait_for_its_node() -> None:
    def claim(phase: str, class_name: str) -> Claim:
        document = {"metadata": {"name": "c"}, "spec": {"storageClassName": class_name}, "status": {"phase": phase}}
        return msgspec.convert(document, Claim)

    def storage_class(key: Key) -> StorageClass | None:
        modes = {"now": "Immediate", "late": "WaitForFirstConsumer"}
        document = {"metadata": {"name": key.name}, "volumeBindingMode": modes.get(key.name, "")}
        return msgspec.convert(document, StorageClass) if key.name in modes else None

    pod = a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    unbound = "pod has unbound immediate PersistentVolumeClaims"
    assert assess_claims(pod, lambda _: None, storage_class).problem == 'persistentvolumeclaim "c" not found'
    assert assess_claims(pod, lambda _: claim("Bound", "now"), storage_class).problem == ""
    assert assess_claims(pod, lambda _: claim("Pending", "now"), storage_class).problem == unbound
    assert assess_claims(pod, lambda _: claim("Pending", "unknown"), storage_class).problem == unbound
    late = assess_claims(pod, lambda _: claim("Pending", "late"), storage_class)
    assert (late.problem, len(late.unbound)) == ("", 1)
