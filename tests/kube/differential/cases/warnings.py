"""Fields that are unknown although the request is refused, traffic from outside, and the words about names."""

from __future__ import annotations

from kube.differential.call import case, merge, post, put, quietly, worded
from kube.differential.objects import (
    CONFIGMAPS,
    NAMESPACES,
    PODS,
    SERVICES,
    WIDGETS,
    configmap,
    container,
    namespace,
    pod,
    pod_spec,
    service,
    widget,
)

LONG, LONGER = "a" * 64, "a" * 254
OUTSIDE = {"externalIPs": ["1.2.3.4"]}
CASES = [
    case(
        "a request that is refused still says what it found",
        post(CONFIGMAPS, configmap("B_", {"nonsense": 1})),
        post(CONFIGMAPS.replace("${ns}", "absent"), configmap("a", {"nonsense": 1})),
        post(WIDGETS, widget("a", {"spec": {"tags": {"a": 1}, "nonsense": 1}})),
        quietly(post(CONFIGMAPS, configmap())),
        post(CONFIGMAPS, configmap("a", {"nonsense": 1})),
        post(CONFIGMAPS, configmap("a", {"nonsense": 1}), fieldValidation="Strict"),
        put(f"{CONFIGMAPS}/a", configmap("a", {"nonsense": 1, "metadata": {"resourceVersion": "1"}})),
        merge(f"{CONFIGMAPS}/a", {"nonsense": 1, "metadata": {"resourceVersion": "1"}}),
        merge(f"{CONFIGMAPS}/a", {"apiVersion": ""}),
    ),
    case(
        "traffic from outside has a policy, and what nobody reaches from there has none",
        post(SERVICES, service("a", {"spec": OUTSIDE})),
        post(SERVICES, service("b", {"spec": {"externalTrafficPolicy": "Local", **OUTSIDE}})),
        post(SERVICES, service("c", {"spec": {"externalTrafficPolicy": "Cluster"}})),
        merge(f"{SERVICES}/a", {"spec": {"externalIPs": None}}),
        merge(f"{SERVICES}/b", {"spec": {"externalIPs": None}}),
    ),
    case(
        "the words about names that are too long or have dots",
        worded(post(NAMESPACES, namespace(LONG))),
        worded(post(NAMESPACES, namespace("a.b"))),
        worded(post(NAMESPACES, namespace("A_b"))),
        worded(post(CONFIGMAPS, configmap(LONGER))),
        worded(post(WIDGETS, widget(LONGER))),
        worded(post(SERVICES, service(LONG))),
        worded(post(SERVICES, service("a.b"))),
        worded(post(PODS, {**pod(), "spec": pod_spec({**container(), "name": LONG})})),
        worded(post(PODS, {**pod(), "spec": pod_spec({**container(), "name": "a.b"})})),
        worded(post(CONFIGMAPS, configmap("a", {"metadata": {"labels": {"a": LONG}}}))),
        worded(post(CONFIGMAPS, configmap("a", {"metadata": {"labels": {f"{LONGER}/a": "x"}}}))),
        worded(post(CONFIGMAPS, configmap("a", {"metadata": {"annotations": {LONG: "x"}}}))),
    ),
]
