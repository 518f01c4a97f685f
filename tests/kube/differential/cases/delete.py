"""Deleting: preconditions, propagation, finalizers, grace, collections."""

from __future__ import annotations

from kube.differential.call import (
    Call,
    OpenWatch,
    ReadWatch,
    case,
    delete,
    edit,
    get,
    json_patch,
    merge,
    post,
    put,
    quietly,
    worded,
)
from kube.differential.objects import (
    BUILDERS,
    CLAIMS,
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    SECRETS,
    SERVICES,
    WIDGETS,
    claim,
    configmap,
    deployment,
    job,
    namespace,
    pod,
    quota,
    secret,
    service,
    widget,
)
from kube.differential.widget_crd import crd

HELD = {"metadata": {"finalizers": ["example.com/hold"]}}

EVERY_KIND = [
    case(
        f"a {built()['kind']} is deleted",
        quietly(post(path, built())),
        delete(f"{path}/{built()['metadata']['name']}"),
        get(f"{path}/{built()['metadata']['name']}"),
    )
    for path, built in BUILDERS.items()
]

CASES = [
    *EVERY_KIND,
    case("a delete of what is not there is refused", worded(delete(f"{CONFIGMAPS}/absent"))),
    case("a delete of a pod that is not there is refused", delete(f"{PODS}/absent", gracePeriodSeconds="0")),
    case(
        "a delete with the right uid is accepted",
        quietly(post(CONFIGMAPS, configmap(), "made")),
        delete(f"{CONFIGMAPS}/a", {"preconditions": {"uid": "${made.metadata.uid}"}}),
    ),
    case(
        "a delete with another uid is a conflict",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", {"preconditions": {"uid": "another"}}),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "a delete with a stale resourceVersion is a conflict",
        quietly(post(CONFIGMAPS, configmap(), "made")),
        merge(f"{CONFIGMAPS}/a", {"data": {"x": "y"}}),
        delete(f"{CONFIGMAPS}/a", {"preconditions": {"resourceVersion": "${made.metadata.resourceVersion}"}}),
    ),
    case(
        "a delete with uid and resourceVersion is accepted",
        quietly(post(CONFIGMAPS, configmap(), "made")),
        delete(
            f"{CONFIGMAPS}/a",
            {"preconditions": {"uid": "${made.metadata.uid}", "resourceVersion": "${made.metadata.resourceVersion}"}},
        ),
    ),
    case(
        "a precondition guards a pod",
        quietly(post(PODS, pod())),
        delete(f"{PODS}/a", {"preconditions": {"uid": "another"}, "gracePeriodSeconds": 0}),
    ),
    *(
        case(
            f"a precondition guards a {what}",
            quietly(post(path, made, "made")),
            worded(delete(f"{path}/${{made.metadata.name}}", {"preconditions": {"uid": "another"}})),
            delete(f"{path}/${{made.metadata.name}}", {"preconditions": {"resourceVersion": "1"}}, dryRun="All"),
        )
        for what, path, made in (
            ("namespace", NAMESPACES, namespace("${ns}-guarded")),
            ("definition", CRDS, crd("${ns}-guarded.example.com")),
        )
    ),
    case(
        "a precondition guards a custom resource",
        quietly(post(WIDGETS, widget(), "made")),
        delete(f"{WIDGETS}/a", {"preconditions": {"resourceVersion": "1"}}),
        delete(f"{WIDGETS}/a", {"preconditions": {"uid": "${made.metadata.uid}"}}),
    ),
    case(
        "a finalizer holds the object",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        delete(f"{CONFIGMAPS}/a"),
        get(f"{CONFIGMAPS}/a"),
        delete(f"{CONFIGMAPS}/a"),
    ),
    case(
        "the last finalizer ends a deleted object",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "the last finalizer may be removed by update",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        quietly(Call(method="GET", path=f"{CONFIGMAPS}/a", keep="held")),
        edit(f"{CONFIGMAPS}/a", "held", {"metadata": {"finalizers": []}}),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "a finalizer may not be added to a deleted object",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
    ),
    case(
        "a deleted object may still be changed",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        merge(f"{CONFIGMAPS}/a", {"data": {"x": "y"}}),
    ),
    case(
        "deletionTimestamp cannot be taken back",
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"deletionTimestamp": None}}),
    ),
    case(
        "one finalizer of two is removed",
        quietly(post(CONFIGMAPS, configmap(changes={"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        json_patch(f"{CONFIGMAPS}/a", {"op": "remove", "path": "/metadata/finalizers/0"}),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "a held custom resource raises its generation on delete",
        quietly(post(WIDGETS, widget(changes=HELD))),
        delete(f"{WIDGETS}/a"),
        merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}}),
        get(f"{WIDGETS}/a"),
    ),
    case(
        "a held deployment raises its generation on delete",
        quietly(post(DEPLOYMENTS, deployment(changes=HELD))),
        delete(f"{DEPLOYMENTS}/a"),
        get(f"{DEPLOYMENTS}/a"),
    ),
    case(
        "status of a held object can still be written",
        quietly(post(WIDGETS, widget(changes=HELD))),
        quietly(delete(f"{WIDGETS}/a")),
        merge(f"{WIDGETS}/a/status", {"status": {"phase": "Ending"}}),
    ),
    case(
        "foreground deletion holds the object",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", propagationPolicy="Foreground"),
        get(f"{DEPLOYMENTS}/a"),
    ),
    case(
        "orphan deletion holds the object",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", propagationPolicy="Orphan"),
        get(f"{DEPLOYMENTS}/a"),
    ),
    case(
        "background deletion removes the object",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", {"propagationPolicy": "Background"}),
        get(f"{DEPLOYMENTS}/a"),
    ),
    case(
        "an unknown propagation policy is refused",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", propagationPolicy="Sideways"),
    ),
    case(
        "orphanDependents still works",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", {"orphanDependents": True}),
    ),
    case(
        "orphanDependents and a policy exclude each other",
        quietly(post(DEPLOYMENTS, deployment())),
        delete(f"{DEPLOYMENTS}/a", {"orphanDependents": True, "propagationPolicy": "Background"}),
    ),
    case(
        "a negative grace period is refused or read as one second",
        quietly(post(PODS, pod())),
        delete(f"{PODS}/a", gracePeriodSeconds="-1"),
    ),
    case(
        "a grace period that is no number is refused",
        quietly(post(PODS, pod())),
        delete(f"{PODS}/a", gracePeriodSeconds="soon"),
    ),
    case("a pod without a node ends at once", quietly(post(PODS, pod())), delete(f"{PODS}/a"), get(f"{PODS}/a")),
    case(
        "a pod on a node is given its grace",
        quietly(post(PODS, pod(nodeName="there"))),
        delete(f"{PODS}/a"),
        get(f"{PODS}/a"),
    ),
    case(
        "a pod on a node ends at once with no grace",
        quietly(post(PODS, pod(nodeName="there"))),
        delete(f"{PODS}/a", gracePeriodSeconds="0"),
        get(f"{PODS}/a"),
    ),
    case(
        "a second delete may shorten the grace",
        quietly(post(PODS, pod(nodeName="there"))),
        quietly(delete(f"{PODS}/a")),
        delete(f"{PODS}/a", gracePeriodSeconds="3"),
        delete(f"{PODS}/a", gracePeriodSeconds="0"),
        get(f"{PODS}/a"),
    ),
    case(
        "a second delete cannot lengthen the grace",
        quietly(post(PODS, pod(nodeName="there"))),
        quietly(delete(f"{PODS}/a", gracePeriodSeconds="3")),
        delete(f"{PODS}/a", gracePeriodSeconds="60"),
    ),
    case(
        "the grace of a pod is its own by default",
        quietly(post(PODS, pod(nodeName="there", terminationGracePeriodSeconds=7))),
        delete(f"{PODS}/a"),
    ),
    case(
        "a finished pod ends at once",
        quietly(post(PODS, pod(nodeName="there"))),
        quietly(merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})),
        delete(f"{PODS}/a"),
        get(f"{PODS}/a"),
    ),
    case(
        "a held pod without grace stays until its finalizer goes",
        quietly(post(PODS, pod(changes=HELD, nodeName="there"))),
        delete(f"{PODS}/a", gracePeriodSeconds="0"),
        merge(f"{PODS}/a", {"metadata": {"finalizers": None}}),
        get(f"{PODS}/a"),
    ),
    case(
        "a claim waits for its protection",
        quietly(post(CLAIMS, claim())),
        delete(f"{CLAIMS}/a"),
        merge(f"{CLAIMS}/a", {"metadata": {"finalizers": None}}),
        get(f"{CLAIMS}/a"),
    ),
    case("a job is orphaned or not by default", quietly(post(JOBS, job())), delete(f"{JOBS}/a"), get(f"{JOBS}/a")),
    case(
        "unknown delete options are refused or ignored",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", {"nonsense": 1}),
    ),
    case(
        "delete options of a wrong type are refused",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", {"gracePeriodSeconds": "x"}),
    ),
    case(
        "delete options that are no JSON are refused",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", b"{"),
    ),
    case(
        "delete options with kind and version are read",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
    ),
    case(
        "a dry run deletes nothing",
        quietly(post(CONFIGMAPS, configmap())),
        delete(f"{CONFIGMAPS}/a", {"dryRun": ["All"]}),
        get(f"{CONFIGMAPS}/a"),
    ),
    case(
        "a collection is deleted",
        quietly(post(CONFIGMAPS, configmap())),
        quietly(post(CONFIGMAPS, configmap("b"))),
        delete(CONFIGMAPS),
        get(CONFIGMAPS),
    ),
    case(
        "a collection is deleted by label",
        quietly(post(CONFIGMAPS, configmap("a", {"metadata": {"labels": {"x": "1"}}}))),
        quietly(post(CONFIGMAPS, configmap("b", {"metadata": {"labels": {"x": "2"}}}))),
        delete(CONFIGMAPS, labelSelector="x=1"),
        get(CONFIGMAPS),
    ),
    case(
        "a collection is deleted by field",
        quietly(post(CONFIGMAPS, configmap())),
        quietly(post(CONFIGMAPS, configmap("b"))),
        delete(CONFIGMAPS, fieldSelector="metadata.name=b"),
        get(CONFIGMAPS),
    ),
    case(
        "a collection of pods is deleted with grace",
        quietly(post(PODS, pod("a", nodeName="there"))),
        quietly(post(PODS, pod("b"))),
        delete(PODS),
        get(PODS),
    ),
    case(
        "a collection of custom resources is deleted",
        quietly(post(WIDGETS, widget())),
        quietly(post(WIDGETS, widget("b", HELD))),
        delete(WIDGETS),
        get(WIDGETS),
    ),
    case("an empty collection is deleted", delete(SECRETS)),
    case(
        "the body of a collection delete sets the policy",
        quietly(post(SECRETS, secret())),
        delete(SECRETS, {"propagationPolicy": "Foreground"}),
        get(SECRETS),
    ),
    case("a quota collection is deleted", quietly(post(QUOTAS, quota())), delete(QUOTAS), get(QUOTAS)),
    case("services are deleted as a collection", quietly(post(SERVICES, service())), delete(SERVICES), get(SERVICES)),
    case(
        "a watch sees the whole life of a held object",
        OpenWatch(path=CONFIGMAPS, name="w", query={"fieldSelector": "metadata.name=a"}),
        quietly(post(CONFIGMAPS, configmap(changes=HELD))),
        quietly(delete(f"{CONFIGMAPS}/a")),
        quietly(merge(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}})),
        ReadWatch(name="w", events=3),
    ),
    case(
        "a name may be used again after its deletion",
        quietly(post(CONFIGMAPS, configmap(), "first")),
        delete(f"{CONFIGMAPS}/a"),
        post(CONFIGMAPS, configmap()),
        put(f"{CONFIGMAPS}/a", "${first}"),
    ),
]
