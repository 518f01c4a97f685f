"""JSON patch, merge patch, strategic merge patch, and the apply patch that is not served."""

from __future__ import annotations

from kube.differential.call import (
    APPLY_PATCH,
    Case,
    Json,
    case,
    json_patch,
    merge,
    patch,
    post,
    quietly,
    strategic,
    worded,
)
from kube.differential.objects import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    WIDGETS,
    configmap,
    container,
    deployment,
    node,
    pod,
    service,
    service_account,
    widget,
)


def operations(name: str, *given: Json) -> Case:
    """A JSON patch of a config map."""
    return case(name, quietly(post(CONFIGMAPS, configmap())), json_patch(f"{CONFIGMAPS}/a", *given))


def merging(name: str, body: Json) -> Case:
    return case(name, quietly(post(CONFIGMAPS, configmap(), "made")), merge(f"{CONFIGMAPS}/a", body))


TWO = [container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]), container(name="side")]
TWO_CONTAINERS = deployment(changes={"spec": {"template": {"spec": {"containers": TWO}}}})


def template_patch(name: str, spec: Json) -> Case:
    """A strategic patch of the pod template of a Deployment with two containers."""
    return case(
        name,
        quietly(post(DEPLOYMENTS, TWO_CONTAINERS)),
        strategic(f"{DEPLOYMENTS}/a", {"spec": {"template": {"spec": spec}}}),
    )


CASES = [
    operations("a JSON patch adds a key", {"op": "add", "path": "/data/size", "value": "big"}),
    operations("a JSON patch replaces a key", {"op": "replace", "path": "/data/color", "value": "big"}),
    operations("a JSON patch removes a key", {"op": "remove", "path": "/data/color"}),
    operations("a JSON patch that removes what is not there is refused", {"op": "remove", "path": "/data/absent"}),
    operations(
        "a JSON patch that replaces what is not there is refused",
        {"op": "replace", "path": "/data/absent", "value": "x"},
    ),
    operations("a JSON patch moves a key", {"op": "move", "from": "/data/color", "path": "/data/hue"}),
    operations("a JSON patch copies a key", {"op": "copy", "from": "/data/color", "path": "/data/hue"}),
    operations(
        "a JSON patch goes on after a test that holds",
        {"op": "test", "path": "/data/color", "value": "blue"},
        {"op": "add", "path": "/data/x", "value": "y"},
    ),
    operations(
        "a JSON patch ends at a test that fails",
        {"op": "test", "path": "/data/color", "value": "red"},
        {"op": "add", "path": "/data/x", "value": "y"},
    ),
    operations("a JSON patch with an unknown operation is refused", {"op": "grow", "path": "/data/color"}),
    operations("a JSON patch with a path that is none is refused", {"op": "add", "path": "data", "value": "x"}),
    operations(
        "a JSON patch into a parent that is not there is refused",
        {"op": "add", "path": "/metadata/labels/a", "value": "x"},
    ),
    operations(
        "a JSON patch unescapes its path",
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "x"},
    ),
    operations("a JSON patch may not make the object invalid", {"op": "add", "path": "/data/a key", "value": "x"}),
    operations("a JSON patch may not make the object unreadable", {"op": "add", "path": "/data", "value": "x"}),
    operations("a JSON patch may not rename", {"op": "replace", "path": "/metadata/name", "value": "b"}),
    operations("an empty JSON patch changes nothing"),
    case(
        "a JSON patch appends to a list",
        quietly(post(DEPLOYMENTS, TWO_CONTAINERS)),
        json_patch(
            f"{DEPLOYMENTS}/a", {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "C"}}
        ),
        json_patch(
            f"{DEPLOYMENTS}/a", {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": {"name": "Z"}}
        ),
        json_patch(f"{DEPLOYMENTS}/a", {"op": "remove", "path": "/spec/template/spec/containers/0/env/1"}),
        json_patch(f"{DEPLOYMENTS}/a", {"op": "remove", "path": "/spec/template/spec/containers/0/env/9"}),
    ),
    case(
        "a JSON patch that is an object is refused",
        quietly(post(CONFIGMAPS, configmap())),
        patch(f"{CONFIGMAPS}/a", {"data": {}}, "application/json-patch+json"),
    ),
    merging("a merge patch adds and keeps", {"data": {"size": "big"}}),
    merging("a merge patch removes with null", {"data": {"color": None, "size": "big"}}),
    merging("a merge patch removes a whole map", {"data": None}),
    merging("a merge patch that changes nothing changes nothing", {"data": {"color": "blue"}}),
    merging("an empty merge patch changes nothing", {}),
    merging(
        "a merge patch with the right resourceVersion is accepted",
        {"metadata": {"resourceVersion": "${made.metadata.resourceVersion}"}, "data": {"a": "b"}},
    ),
    merging(
        "a merge patch with a stale resourceVersion is a conflict",
        {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}},
    ),
    merging(
        "a merge patch with the right uid is accepted",
        {"metadata": {"uid": "${made.metadata.uid}"}, "data": {"a": "b"}},
    ),
    merging("a merge patch with another uid is a conflict", {"metadata": {"uid": "another"}, "data": {"a": "b"}}),
    merging("a merge patch may not rename", {"metadata": {"name": "b"}}),
    merging("a merge patch may not move", {"metadata": {"namespace": "b"}}),
    merging("a merge patch may not change the kind", {"kind": "Secret"}),
    merging("a merge patch is validated", {"metadata": {"labels": {"a": "b c"}}}),
    merging("a merge patch of a wrong type is refused", {"data": ["a"]}),
    merging("a merge patch that is a list is refused", [{"data": {}}]),
    merging("a merge patch that is a string is refused", "data"),
    merging(
        "a merge patch sets finalizers and labels at once",
        {"metadata": {"finalizers": ["example.com/hold"], "labels": {"a": "b"}}},
    ),
    case(
        "a merge patch replaces lists whole",
        quietly(post(DEPLOYMENTS, TWO_CONTAINERS)),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"template": {"spec": {"containers": [container(name="only")]}}}}),
    ),
    case("a merge patch of what is not there is refused", worded(merge(f"{CONFIGMAPS}/absent", {"data": {"a": "b"}}))),
    case(
        "a merge patch clears an immutable field in vain",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"selector": None}}),
    ),
    case(
        "a merge patch of a removed default restores the default",
        quietly(post(DEPLOYMENTS, deployment())),
        merge(f"{DEPLOYMENTS}/a", {"spec": {"strategy": None, "revisionHistoryLimit": None}}),
    ),
    template_patch(
        "a strategic patch changes the container of its name", {"containers": [{"name": "side", "image": "other:1"}]}
    ),
    template_patch("a strategic patch adds a container", {"containers": [{"name": "third", "image": "other:1"}]}),
    template_patch("a strategic patch deletes a container", {"containers": [{"name": "side", "$patch": "delete"}]}),
    template_patch(
        "a strategic patch replaces a list", {"containers": [{"$patch": "replace"}, container(name="only")]}
    ),
    template_patch(
        "a strategic patch merges environment by name",
        {"containers": [{"name": "main", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}]},
    ),
    template_patch(
        "a strategic patch deletes one variable",
        {"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]},
    ),
    template_patch(
        "a strategic patch orders elements",
        {
            "$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
            "containers": [{"name": "side", "image": "x"}],
        },
    ),
    template_patch(
        "a strategic patch replaces lists without a key", {"containers": [{"name": "main", "command": ["a", "b"]}]}
    ),
    template_patch(
        "a strategic patch merges tolerations as a whole list", {"tolerations": [{"key": "a", "operator": "Exists"}]}
    ),
    template_patch("a strategic patch of a list without its key is refused", {"containers": [{"image": "x"}]}),
    template_patch("a strategic patch adds volumes", {"volumes": [{"name": "v", "emptyDir": {}}]}),
    template_patch("a strategic patch removes a field with null", {"terminationGracePeriodSeconds": None}),
    template_patch(
        "a strategic patch retains the keys it names",
        {"securityContext": {"runAsUser": 5, "$retainKeys": ["runAsUser"]}},
    ),
    case(
        "a strategic patch replaces a map",
        quietly(post(CONFIGMAPS, configmap())),
        strategic(f"{CONFIGMAPS}/a", {"data": {"$patch": "replace", "only": "this"}}),
    ),
    case(
        "a strategic patch deletes a map",
        quietly(post(CONFIGMAPS, configmap())),
        strategic(f"{CONFIGMAPS}/a", {"data": {"$patch": "delete"}}),
    ),
    case(
        "a strategic patch with an unknown directive is refused",
        quietly(post(CONFIGMAPS, configmap())),
        strategic(f"{CONFIGMAPS}/a", {"data": {"$patch": "grow"}}),
    ),
    case(
        "a strategic patch changes the strategy of a deployment",
        quietly(post(DEPLOYMENTS, deployment())),
        strategic(f"{DEPLOYMENTS}/a", {"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}),
    ),
    case(
        "a strategic patch merges finalizers",
        quietly(post(CONFIGMAPS, configmap(changes={"metadata": {"finalizers": ["example.com/a"]}}))),
        strategic(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["example.com/b"]}}),
        strategic(f"{CONFIGMAPS}/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
    ),
    case(
        "a strategic patch merges ports of a service by port",
        quietly(post(SERVICES, service())),
        strategic(f"{SERVICES}/a", {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}),
    ),
    case(
        "a strategic patch adds a pull secret",
        quietly(post(SERVICE_ACCOUNTS, service_account())),
        strategic(f"{SERVICE_ACCOUNTS}/a", {"imagePullSecrets": [{"name": "b"}]}),
        strategic(f"{SERVICE_ACCOUNTS}/a", {"imagePullSecrets": [{"name": "c"}]}),
    ),
    case(
        "a strategic patch taints a node",
        quietly(post(NODES, node())),
        strategic(f"{NODES}/${{ns}}-node", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ),
    case(
        "a strategic patch sets a pod condition by its type",
        quietly(post(PODS, pod())),
        strategic(f"{PODS}/a/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        strategic(
            f"{PODS}/a/status",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]
                }
            },
        ),
    ),
    case(
        "a strategic patch of a custom resource is refused",
        quietly(post(WIDGETS, widget())),
        worded(strategic(f"{WIDGETS}/a", {"spec": {"size": 4}})),
    ),
    case(
        "a merge patch of a custom resource is accepted",
        quietly(post(WIDGETS, widget())),
        merge(f"{WIDGETS}/a", {"spec": {"size": 4}}),
    ),
    case(
        "a JSON patch of a custom resource is accepted",
        quietly(post(WIDGETS, widget())),
        json_patch(f"{WIDGETS}/a", {"op": "replace", "path": "/spec/size", "value": 4}),
    ),
    case(
        "an unknown kind of patch is refused",
        quietly(post(CONFIGMAPS, configmap())),
        worded(patch(f"{CONFIGMAPS}/a", {"data": {}}, "application/grow+json")),
    ),
    case(
        "a patch sent as plain JSON is refused",
        quietly(post(CONFIGMAPS, configmap())),
        patch(f"{CONFIGMAPS}/a", {"data": {}}, "application/json"),
    ),
    case(
        "a patch that is no JSON is refused",
        quietly(post(CONFIGMAPS, configmap())),
        patch(f"{CONFIGMAPS}/a", b"{data", "application/merge-patch+json"),
    ),
    case("an apply patch needs a field manager", patch(f"{CONFIGMAPS}/a", configmap(), APPLY_PATCH)),
    case("a patch of a list is refused", merge(CONFIGMAPS, {"data": {}})),
]
