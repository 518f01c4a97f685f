"""Dry run and fieldValidation."""

from __future__ import annotations

from kube.differential.call import (
    JSON_PATCH,
    Call,
    Case,
    case,
    delete,
    edit,
    get,
    merge,
    patch,
    post,
    quietly,
    strategic,
    with_headers,
    worded,
)
from kube.differential.objects import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    WIDGETS,
    configmap,
    container,
    deployment,
    pod,
    widget,
)

UNKNOWN_POD = pod(changes={"spec": {"nonsense": 1, "containers": [container(more="x")]}, "stuff": True})
UNKNOWN_WIDGET = widget(changes={"spec": {"nonsense": 1, "limits": {"gpu": 2}}, "stuff": True})
UNKNOWN_META = configmap(changes={"metadata": {"nonsense": "x"}})
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"a"},"data":{"k":"1","k":"2"}}'


def validated(name: str, path: str, body: object, mode: str) -> Case:
    """A create with fieldValidation; `mode` empty leaves it to the server's default."""
    query = {"fieldValidation": mode} if mode else {}
    return case(f"{name} with {mode or 'the default'}", worded(post(path, body, **query)))


MODES = ("Strict", "Warn", "Ignore", "")

CASES = [
    *(validated("unknown fields of a pod", PODS, UNKNOWN_POD, mode) for mode in MODES),
    *(validated("unknown fields of a custom resource", WIDGETS, UNKNOWN_WIDGET, mode) for mode in MODES),
    *(validated("unknown metadata", CONFIGMAPS, UNKNOWN_META, mode) for mode in MODES),
    *(validated("a field given twice", CONFIGMAPS, TWICE, mode) for mode in MODES),
    validated("a valid pod", PODS, pod(), "Strict"),
    validated("a valid custom resource", WIDGETS, widget(), "Strict"),
    validated("a nonsense mode", PODS, pod(), "Loud"),
    validated(
        "unknown metadata of a custom resource", WIDGETS, widget(changes={"metadata": {"nonsense": "x"}}), "Strict"
    ),
    validated(
        "unknown fields where all are kept",
        WIDGETS,
        widget(changes={"spec": {"free": {"any": {"thing": 1}}}}),
        "Strict",
    ),
    validated(
        "a wrong type and an unknown field", PODS, pod(changes={"spec": {"nonsense": 1, "hostNetwork": "x"}}), "Strict"
    ),
    validated("a name in another case", PODS, pod(changes={"spec": {"HostNetwork": True}}), "Strict"),
    case(
        "an update with unknown fields is refused when strict",
        quietly(post(CONFIGMAPS, configmap(), "made")),
        worded(edit(f"{CONFIGMAPS}/a", "made", {"more": 1}, fieldValidation="Strict")),
    ),
    case(
        "a merge patch with unknown fields is refused when strict",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"more": 1}}, fieldValidation="Strict"),
    ),
    case(
        "a merge patch with unknown fields warns",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"more": 1}}),
    ),
    case(
        "a strategic patch with unknown fields is refused when strict",
        quietly(post(DEPLOYMENTS, deployment())),
        strategic(f"{DEPLOYMENTS}/a", {"spec": {"more": 1}}, fieldValidation="Strict"),
    ),
    case(
        "a patch of a custom resource with unknown fields is refused when strict",
        quietly(post(WIDGETS, widget())),
        merge(f"{WIDGETS}/a", {"spec": {"more": 1}}, fieldValidation="Strict"),
    ),
    case(
        "a JSON patch with unknown fields is refused when strict",
        quietly(post(WIDGETS, widget())),
        patch(f"{WIDGETS}/a", [{"op": "add", "path": "/spec/more", "value": 1}], JSON_PATCH, fieldValidation="Strict"),
    ),
    case("a dry run creates nothing", post(CONFIGMAPS, configmap(), dryRun="All"), get(f"{CONFIGMAPS}/a")),
    case(
        "a dry run of a generated name",
        post(CONFIGMAPS, configmap(changes={"metadata": {"name": None, "generateName": "g-"}}), dryRun="All"),
    ),
    case("a dry run of a pod has all defaults", post(PODS, pod(), dryRun="All"), get(f"{PODS}/a")),
    case("a dry run is validated", post(PODS, pod(changes={"spec": {"containers": []}}), dryRun="All")),
    case(
        "a dry run meets what is there",
        quietly(post(CONFIGMAPS, configmap())),
        post(CONFIGMAPS, configmap(), dryRun="All"),
    ),
    case(
        "a dry run of an update changes nothing",
        quietly(post(CONFIGMAPS, configmap(), "made")),
        edit(f"{CONFIGMAPS}/a", "made", {"data": {"x": "y"}}, dryRun="All"),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "a dry run of a patch changes nothing",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"replicas": 9}}, dryRun="All"),
        get(f"{DEPLOYMENTS}/a"),
    ),
    case(
        "a dry run of a stale update is a conflict",
        quietly(post(CONFIGMAPS, configmap())),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}}, dryRun="All"),
    ),
    case(
        "a dry run of a scale changes nothing",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 9}}, dryRun="All"),
        get(f"{DEPLOYMENTS}/a/scale"),
    ),
    case(
        "a dry run of a collection deletes nothing",
        quietly(post(CONFIGMAPS, configmap())),
        delete(CONFIGMAPS, dryRun="All"),
        get(CONFIGMAPS),
    ),
    case(
        "a dry run of a pod's delete leaves it",
        quietly(post(PODS, pod(nodeName="x"))),
        delete(f"{PODS}/a", dryRun="All"),
        get(f"{PODS}/a"),
    ),
    case("an unknown dry run is refused", post(CONFIGMAPS, configmap(), dryRun="Some")),
    case("an empty dry run is refused or read", post(CONFIGMAPS, configmap(), dryRun="")),
    case("a field manager is accepted", post(CONFIGMAPS, configmap(), fieldManager="me")),
    case("a field manager of 129 letters is refused", post(CONFIGMAPS, configmap(), fieldManager="m" * 129)),
    case(
        "a body may be YAML",
        with_headers(
            Call(
                method="POST",
                path=CONFIGMAPS,
                body=b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: word\n",
            ),
            Content_Type="application/yaml",
        ),
    ),
    case(
        "a YAML body that is none is refused",
        with_headers(Call(method="POST", path=CONFIGMAPS, body=b"a: [b"), Content_Type="application/yaml"),
    ),
]
