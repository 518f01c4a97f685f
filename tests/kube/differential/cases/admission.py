"""Admission that flows see: namespaces, quotas, priority, default classes, protection."""

from __future__ import annotations

from kube.differential.call import Call, Json, case, delete, get, merge, post, put, quietly, until, worded
from kube.differential.objects import (
    CLAIMS,
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VOLUMES,
    claim,
    configmap,
    container,
    deployment,
    namespace,
    pod,
    priority_class,
    quota,
    service,
    service_account,
    volume,
)

OTHER = f"{NAMESPACES}/${{ns}}-other"
THERE = "/api/v1/namespaces/${ns}-other/configmaps"
MADE_OTHER = quietly(post(NAMESPACES, namespace()))


def sized(name: str = "a", **requests: str) -> Json:
    return pod(name, {"spec": {"containers": [container(resources={"requests": requests, "limits": requests})]}})


def limited(hard: dict[str, str], used: dict[str, str] | None = None) -> tuple[Call, ...]:
    """A quota with a status, which a controller would write; ends when the server's admission has seen it."""
    counted = used or dict.fromkeys(hard, "0")
    return (
        quietly(post(QUOTAS, quota(changes={"spec": {"hard": {"pods": None, **hard}}}))),
        quietly(merge(f"{QUOTAS}/a/status", {"status": {"hard": hard, "used": counted}})),
    )


def seen(call: Call) -> Call:
    """A call that is refused once admission has seen the quota: dry, so that it leaves nothing behind."""
    return until(403, Call(method="POST", path=call.path, body=call.body, query={"dryRun": "All"}))


FULL = limited({"pods": "1"}, {"pods": "1"})

CASES = [
    case("a namespace starts active and held", post(NAMESPACES, namespace()), get(OTHER)),
    case(
        "a namespace is labelled with its name",
        post(NAMESPACES, namespace(changes={"metadata": {"labels": {"a": "b"}}})),
    ),
    case(
        "the name label of a namespace is restored",
        MADE_OTHER,
        merge(OTHER, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}),
    ),
    case("a deleted namespace is terminating", MADE_OTHER, delete(OTHER), get(OTHER), delete(OTHER)),
    case(
        "nothing is made in a terminating namespace",
        MADE_OTHER,
        quietly(post(THERE, configmap())),
        quietly(delete(OTHER)),
        until(403, worded(post(THERE, configmap("b")))),
        merge(f"{THERE}/a", {"data": {"x": "y"}}),
        delete(f"{THERE}/a"),
    ),
    case("the default namespace cannot be deleted", delete(f"{NAMESPACES}/default")),
    case("the kube-system namespace cannot be deleted", delete(f"{NAMESPACES}/kube-system")),
    case(
        "the default namespaces are there",
        get(f"{NAMESPACES}/default"),
        get(f"{NAMESPACES}/kube-public"),
        get(f"{NAMESPACES}/kube-node-lease"),
    ),
    case("a quota of pods refuses the next", *FULL, seen(post(PODS, pod())), worded(post(PODS, pod()))),
    case(
        "a quota counts what is made",
        *limited({"pods": "2"}, {"pods": "1"}),
        until(201, post(PODS, pod(), dryRun="All")),
        post(PODS, pod()),
        get(f"{QUOTAS}/a"),
        worded(post(PODS, pod("b"))),
    ),
    case(
        "a quota of requests refuses what is too big",
        *limited({"requests.memory": "1Gi", "requests.cpu": "2"}),
        seen(post(PODS, sized(memory="2Gi", cpu="1"))),
        worded(post(PODS, sized(memory="2Gi", cpu="1"))),
    ),
    case(
        "a quota of GPUs refuses what is too much",
        *limited({"requests.nvidia.com/gpu": "1"}),
        seen(post(PODS, sized(**{"nvidia.com/gpu": "2"}))),
        worded(post(PODS, sized(**{"nvidia.com/gpu": "2"}))),
        post(PODS, sized(**{"nvidia.com/gpu": "1"})),
        get(f"{QUOTAS}/a"),
    ),
    case(
        "a quota of requests refuses what asks for none",
        *limited({"requests.memory": "1Gi"}),
        seen(post(PODS, pod())),
        worded(post(PODS, pod())),
    ),
    case(
        "a quota of limits refuses what has none",
        *limited({"limits.cpu": "1"}),
        seen(post(PODS, pod())),
        worded(post(PODS, pod())),
    ),
    case(
        "two quotas refuse together",
        *limited({"pods": "0"}),
        quietly(post(QUOTAS, quota("b", {"spec": {"hard": {"pods": "0"}}}))),
        quietly(merge(f"{QUOTAS}/b/status", {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}})),
        seen(post(PODS, pod())),
        post(PODS, pod()),
    ),
    case(
        "a quota of claims refuses the next",
        *limited({"persistentvolumeclaims": "0"}),
        seen(post(CLAIMS, claim())),
        worded(post(CLAIMS, claim())),
    ),
    case(
        "a quota of storage refuses what is too big",
        *limited({"requests.storage": "1Gi"}),
        seen(post(CLAIMS, claim(changes={"spec": {"resources": {"requests": {"storage": "5Gi"}}}}))),
        worded(post(CLAIMS, claim(changes={"spec": {"resources": {"requests": {"storage": "5Gi"}}}}))),
    ),
    case(
        "a quota of services refuses the next",
        *limited({"services": "0"}),
        seen(post(SERVICES, service())),
        worded(post(SERVICES, service())),
    ),
    case(
        "a quota of config maps refuses the next",
        *limited({"count/configmaps": "0"}),
        seen(post(CONFIGMAPS, configmap())),
        worded(post(CONFIGMAPS, configmap())),
    ),
    case(
        "a quota of deployments refuses the next",
        *limited({"count/deployments.apps": "0"}),
        seen(post(DEPLOYMENTS, deployment())),
        worded(post(DEPLOYMENTS, deployment())),
    ),
    case(
        "a quota leaves updates of what is there alone",
        quietly(post(PODS, pod())),
        *FULL,
        seen(post(PODS, pod("b"))),
        merge(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case("a dry run is held by a quota and uses none", *FULL, seen(post(PODS, pod())), get(f"{QUOTAS}/a")),
    case(
        "a priority class gives its value",
        quietly(post(PRIORITY_CLASSES, priority_class())),
        until(201, post(PODS, pod("probe", priorityClassName="${ns}-a"), dryRun="All")),
        post(PODS, pod(priorityClassName="${ns}-a")),
    ),
    case(
        "a priority class gives its preemption policy",
        quietly(post(PRIORITY_CLASSES, priority_class(changes={"preemptionPolicy": "Never", "value": -5}))),
        until(201, post(PODS, pod("probe", priorityClassName="${ns}-a"), dryRun="All")),
        post(PODS, pod(priorityClassName="${ns}-a")),
    ),
    case("a system priority class gives its value", post(PODS, pod(priorityClassName="system-node-critical"))),
    case("a priority without its class is refused", worded(post(PODS, pod(priority=5)))),
    case("a priority class that is not there is named", worded(post(PODS, pod(priorityClassName="absent")))),
    case("default tolerations are added", post(PODS, pod())),
    case(
        "a toleration of one kind leaves the other default",
        post(
            PODS,
            pod(
                tolerations=[
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    }
                ]
            ),
        ),
    ),
    case(
        "a service account gives its pull secrets",
        quietly(post(SERVICE_ACCOUNTS, service_account("puller", {"imagePullSecrets": [{"name": "s"}]}))),
        until(201, post(PODS, pod("probe", serviceAccountName="puller"), dryRun="All")),
        post(PODS, pod(serviceAccountName="puller")),
    ),
    case("a service account that is not there is named", worded(post(PODS, pod(serviceAccountName="absent")))),
    case(
        "a claim is protected",
        post(CLAIMS, claim()),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CLAIMS}/a"),
    ),
    case("a volume is protected", post(VOLUMES, volume()), delete(f"{VOLUMES}/${{ns}}-a"), get(f"{VOLUMES}/${{ns}}-a")),
    case(
        "a claim keeps its own finalizers",
        post(CLAIMS, claim(changes={"metadata": {"finalizers": ["example.com/hold"]}})),
    ),
    case(
        "a quota cannot be overdrawn by an update of a claim",
        *limited({"requests.storage": "1Gi"}, {"requests.storage": "1Gi"}),
        seen(post(CLAIMS, claim("b"))),
        get(f"{QUOTAS}/a"),
    ),
    case(
        "a namespace cannot be updated while it ends",
        MADE_OTHER,
        quietly(delete(OTHER)),
        merge(OTHER, {"metadata": {"labels": {"a": "b"}}}),
        put(f"{OTHER}/finalize", namespace(changes={"spec": {"finalizers": ["kubernetes"]}})),
    ),
]
