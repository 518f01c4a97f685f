"""Watches: where they start, what they send and in which order, and how they end."""

from __future__ import annotations

from kube.differential.call import (
    TABLE,
    Call,
    OpenWatch,
    ReadWatch,
    case,
    delete,
    get,
    merge,
    post,
    quietly,
    watch,
    with_headers,
)
from kube.differential.objects import CONFIGMAPS, DEPLOYMENTS, PODS, WIDGETS, configmap, deployment, pod, widget

MADE = quietly(post(CONFIGMAPS, configmap(), "made"))
LISTED = quietly(Call(method="GET", path=CONFIGMAPS, keep="listed"))
FROM_MADE = {"resourceVersion": "${made.metadata.resourceVersion}"}
FROM_LIST = {"resourceVersion": "${listed.metadata.resourceVersion}"}
RED = {"metadata": {"labels": {"color": "red"}}}
BLUE = {"metadata": {"labels": {"color": "blue"}}}


def renamed(name: str) -> Call:
    return quietly(post(CONFIGMAPS, configmap(name)))


CASES = [
    case("a watch without a version starts with what is there", MADE, renamed("b"), watch(CONFIGMAPS, 2)),
    case(
        "a watch at version zero starts with what is there",
        MADE,
        renamed("b"),
        watch(CONFIGMAPS, 2, resourceVersion="0"),
    ),
    case(
        "a watch from a list sends what came after it",
        MADE,
        LISTED,
        renamed("b"),
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"x": "y"}})),
        quietly(delete(f"{CONFIGMAPS}/b")),
        watch(CONFIGMAPS, 3, **FROM_LIST),
    ),
    case(
        "a watch from an object's own version leaves its creation out",
        MADE,
        renamed("b"),
        watch(CONFIGMAPS, 1, **FROM_MADE),
    ),
    case(
        "every write is one event, in order",
        MADE,
        *(quietly(merge(f"{CONFIGMAPS}/a", {"data": {"n": str(number)}})) for number in range(12)),
        watch(CONFIGMAPS, 12, **FROM_MADE),
    ),
    case(
        "no write is an event that changed nothing",
        MADE,
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"n": "1"}})),
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"n": "1"}})),
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"n": "2"}})),
        watch(CONFIGMAPS, 2, **FROM_MADE),
    ),
    case(
        "a deleted object is sent as it was last",
        MADE,
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"n": "1"}})),
        quietly(delete(f"{CONFIGMAPS}/a")),
        watch(CONFIGMAPS, 2, **FROM_MADE),
    ),
    case(
        "a delete and a new object of the name are two events",
        MADE,
        quietly(delete(f"{CONFIGMAPS}/a")),
        quietly(post(CONFIGMAPS, configmap())),
        watch(CONFIGMAPS, 2, **FROM_MADE),
    ),
    case(
        "a live watch follows writes",
        OpenWatch(path=CONFIGMAPS, name="w"),
        MADE,
        ReadWatch(name="w", events=1),
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"x": "y"}})),
        ReadWatch(name="w", events=1),
        quietly(delete(f"{CONFIGMAPS}/a")),
        ReadWatch(name="w", events=1),
    ),
    case(
        "a watch of one object follows it alone",
        OpenWatch(path=CONFIGMAPS, name="w", query={"fieldSelector": "metadata.name=a"}),
        renamed("b"),
        MADE,
        renamed("c"),
        quietly(delete(f"{CONFIGMAPS}/a")),
        ReadWatch(name="w", events=2),
    ),
    case(
        "the old path of a watch still works",
        MADE,
        renamed("b"),
        Call(method="GET", path="/api/v1/watch/namespaces/${ns}/configmaps", query={"timeoutSeconds": "3"}, events=2),
    ),
    case(
        "a label selector turns changes into arrivals and departures",
        quietly(post(CONFIGMAPS, configmap(changes=RED), "made")),
        quietly(merge(f"{CONFIGMAPS}/a", BLUE)),
        quietly(merge(f"{CONFIGMAPS}/a", RED)),
        quietly(merge(f"{CONFIGMAPS}/a", {"data": {"x": "y"}})),
        quietly(delete(f"{CONFIGMAPS}/a")),
        watch(CONFIGMAPS, 4, labelSelector="color=red", **FROM_MADE),
    ),
    case(
        "a live label selector turns changes into arrivals and departures",
        OpenWatch(path=CONFIGMAPS, name="w", query={"labelSelector": "color=red"}),
        quietly(post(CONFIGMAPS, configmap(changes=BLUE))),
        quietly(merge(f"{CONFIGMAPS}/a", RED)),
        quietly(merge(f"{CONFIGMAPS}/a", BLUE)),
        quietly(delete(f"{CONFIGMAPS}/a")),
        quietly(post(CONFIGMAPS, configmap("b", RED))),
        ReadWatch(name="w", events=3),
    ),
    case(
        "a field selector turns changes into arrivals and departures",
        OpenWatch(path=PODS, name="w", query={"fieldSelector": "status.phase=Running"}),
        quietly(post(PODS, pod())),
        quietly(merge(f"{PODS}/a/status", {"status": {"phase": "Running"}})),
        quietly(merge(f"{PODS}/a/status", {"status": {"phase": "Failed"}})),
        ReadWatch(name="w", events=2),
    ),
    case(
        "status writes are events",
        quietly(post(DEPLOYMENTS, deployment(), "made")),
        quietly(merge(f"{DEPLOYMENTS}/a/status", {"status": {"replicas": 1}})),
        watch(DEPLOYMENTS, 1, **FROM_MADE),
    ),
    case(
        "custom resources are watched",
        quietly(post(WIDGETS, widget(), "made")),
        quietly(merge(f"{WIDGETS}/a", {"spec": {"size": 9}})),
        quietly(delete(f"{WIDGETS}/a")),
        watch(WIDGETS, 2, **FROM_MADE),
    ),
    case(
        "a watch over all namespaces follows one",
        MADE,
        renamed("b"),
        watch("/api/v1/configmaps", 1, fieldSelector="metadata.namespace=${ns}", **FROM_MADE),
    ),
    case(
        "a watch at a version that is no number is refused",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "resourceVersion": "x"}),
    ),
    case(
        "a watch at a negative version is refused",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "resourceVersion": "-5"}),
    ),
    case(
        "a watch with a bad selector is refused",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "labelSelector": "a=>b"}),
    ),
    case(
        "a watch with an unknown field is refused",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "fieldSelector": "a=b"}),
    ),
    case("a watch ends after its time", watch(CONFIGMAPS, 1, resourceVersion="0", timeoutSeconds="1")),
    case(
        "a watch with a time that is no number is refused",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "timeoutSeconds": "soon"}),
    ),
    case(
        "watch=1 and watch=false are read",
        MADE,
        Call(method="GET", path=CONFIGMAPS, query={"watch": "1", "timeoutSeconds": "2"}, events=1),
        get(CONFIGMAPS, watch="false"),
    ),
    case(
        "a watch with initial events ends them with a bookmark",
        MADE,
        renamed("b"),
        watch(CONFIGMAPS, 3, sendInitialEvents="true", allowWatchBookmarks="true", resourceVersionMatch="NotOlderThan"),
    ),
    case(
        "initial events from a version end with a bookmark",
        MADE,
        renamed("b"),
        watch(
            CONFIGMAPS,
            3,
            sendInitialEvents="true",
            allowWatchBookmarks="true",
            resourceVersionMatch="NotOlderThan",
            **FROM_MADE,
        ),
    ),
    case(
        "initial events need a match",
        Call(method="GET", path=CONFIGMAPS, query={"watch": "true", "sendInitialEvents": "true"}),
    ),
    case("initial events are for watches only", get(CONFIGMAPS, sendInitialEvents="true")),
    case(
        "a match on a watch needs initial events",
        Call(
            method="GET",
            path=CONFIGMAPS,
            query={"watch": "true", "resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"},
        ),
    ),
    case("a watch may ask for tables", MADE, with_headers(watch(CONFIGMAPS, 1), Accept=TABLE)),
    case(
        "a watch may ask for tables of custom resources",
        quietly(post(WIDGETS, widget())),
        with_headers(watch(WIDGETS, 1), Accept=TABLE),
    ),
    case(
        "a watch of an unknown kind is refused",
        Call(method="GET", path="/api/v1/namespaces/${ns}/nonsense", query={"watch": "true"}),
    ),
]
