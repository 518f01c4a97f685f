"""Lists: selectors, paging, versions, order."""

from __future__ import annotations

from kube.differential.call import Call, Case, case, get, post, quietly
from kube.differential.objects import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    WIDGETS,
    configmap,
    event,
    namespace,
    pod,
    secret,
    widget,
)


def labelled(name: str, **labels: str) -> Call:
    return quietly(post(CONFIGMAPS, configmap(name, {"metadata": {"labels": labels}})))


THREE = (
    labelled("a", tier="front", env="prod"),
    labelled("b", tier="back", env="prod"),
    labelled("c", env="test"),
    labelled("d"),
)
PLACED = (
    quietly(post(PODS, pod("a", nodeName="here"))),
    quietly(post(PODS, pod("b", nodeName="there"))),
    quietly(post(PODS, pod("c", restartPolicy="Never"))),
)

# Version zero may be answered from a cache that lags; a plain list waits until it has caught up.
CAUGHT_UP = quietly(get(CONFIGMAPS))


def selected(name: str, selector: str) -> Case:
    return case(name, *THREE, get(CONFIGMAPS, labelSelector=selector))


def field(name: str, selector: str) -> Case:
    return case(name, *PLACED, get(PODS, fieldSelector=selector))


def paged(**query: str) -> Call:
    return Call(method="GET", path=CONFIGMAPS, query=query, keep="page")


CASES = [
    case("an empty list has its kind", get(CONFIGMAPS)),
    case("an empty list of deployments has its kind", get(DEPLOYMENTS)),
    case("an empty list of custom resources has its kind", get(WIDGETS)),
    case("items of a list carry no kind", *THREE, get(CONFIGMAPS)),
    case("items of a list of custom resources carry their kind", quietly(post(WIDGETS, widget())), get(WIDGETS)),
    case(
        "a list is in the order of names",
        labelled("z"),
        labelled("a-b"),
        labelled("a"),
        labelled("a.b"),
        get(CONFIGMAPS),
    ),
    case(
        "a list over all namespaces is in the order of namespaces",
        *THREE,
        get("/api/v1/configmaps", labelSelector="env=prod", fieldSelector="metadata.namespace=${ns}"),
    ),
    selected("a selector with =", "tier=front"),
    selected("a selector with ==", "tier==front"),
    selected("a selector with != takes those without the label", "tier!=front"),
    selected("a selector with in", "tier in (front, back)"),
    selected("a selector with notin takes those without the label", "tier notin (front)"),
    selected("a selector with exists", "tier"),
    selected("a selector with not exists", "!tier"),
    selected("a selector with several demands", "env=prod,tier in (back),!other"),
    selected("a selector with spaces", " env = prod , tier "),
    selected("an empty selector takes all", ""),
    selected("a selector for an empty value", "tier="),
    selected("a selector with a bad value is refused", "tier=b c"),
    selected("a selector with a bad operator is refused", "tier=>front"),
    selected("a selector with an open bracket is refused", "tier in (front"),
    selected("a selector with a bad key is refused", "a b=c"),
    selected("a selector with an empty set", "tier in ()"),
    selected("a selector with a number comparison is read", "tier>5"),
    selected("a selector ending in a comma is refused", "tier=front,"),
    field("pods are selected by node", "spec.nodeName=here"),
    field("pods are selected by another node", "spec.nodeName!=here"),
    field("pods without a node are selected", "spec.nodeName="),
    field("pods are selected by name", "metadata.name=b"),
    field("pods are selected by name with ==", "metadata.name==b"),
    field("pods are selected by phase", "status.phase=Pending"),
    field("pods are selected by another phase", "status.phase!=Pending"),
    field("pods are selected by restart policy", "spec.restartPolicy=Never"),
    field("pods are selected by two fields", "spec.nodeName!=,metadata.name!=a"),
    field("pods are selected by service account", "spec.serviceAccountName=default"),
    field("an unknown field of a pod is refused", "spec.nonsense=here"),
    field("a field selector without an operator is refused", "metadata.name"),
    case(
        "config maps are selected by name and namespace",
        *THREE,
        get(CONFIGMAPS, fieldSelector="metadata.name=a,metadata.namespace=${ns}"),
    ),
    case("config maps are not selected by data", get(CONFIGMAPS, fieldSelector="data.color=blue")),
    case(
        "secrets are selected by type",
        quietly(post(SECRETS, secret())),
        quietly(post(SECRETS, secret("b", {"type": "example.com/x"}))),
        get(SECRETS, fieldSelector="type=example.com/x"),
    ),
    case(
        "events are selected by the object they are about",
        quietly(post(EVENTS, event())),
        quietly(post(EVENTS, event("b", {"involvedObject": {"name": "b"}}))),
        get(EVENTS, fieldSelector="involvedObject.name=b,involvedObject.namespace=${ns},involvedObject.kind=Pod"),
    ),
    case(
        "events are selected by reason and type",
        quietly(post(EVENTS, event())),
        get(EVENTS, fieldSelector="reason=Started,type!=Warning"),
    ),
    case("namespaces are selected by name", get(NAMESPACES, fieldSelector="metadata.name=${ns}")),
    case(
        "namespaces are selected by phase",
        quietly(post(NAMESPACES, namespace(changes={"metadata": {"labels": {"of": "${ns}"}}}))),
        get(NAMESPACES, labelSelector="of=${ns}", fieldSelector="status.phase=Active"),
    ),
    case("jobs are selected by success", get(JOBS, fieldSelector="status.successful=1")),
    case(
        "custom resources are selected by name",
        quietly(post(WIDGETS, widget())),
        quietly(post(WIDGETS, widget("b"))),
        get(WIDGETS, fieldSelector="metadata.name=b"),
    ),
    case("custom resources are not selected by spec", get(WIDGETS, fieldSelector="spec.size=3")),
    case("services are selected by name", get(SERVICES, fieldSelector="metadata.name=absent")),
    case(
        "pages are consistent",
        *THREE,
        paged(limit="2"),
        labelled("aa"),
        Call(method="GET", path=CONFIGMAPS, query={"limit": "2", "continue": "${page.metadata.continue}"}, keep="page"),
    ),
    case(
        "a page without a limit takes the rest",
        *THREE,
        paged(limit="1"),
        Call(method="GET", path=CONFIGMAPS, query={"continue": "${page.metadata.continue}"}),
    ),
    case(
        "pages of a selector tell no count",
        *THREE,
        paged(limit="1", labelSelector="env=prod"),
        Call(
            method="GET",
            path=CONFIGMAPS,
            query={"limit": "1", "labelSelector": "env=prod", "continue": "${page.metadata.continue}"},
        ),
    ),
    case("a limit over the count ends the list", *THREE, paged(limit="10")),
    case("a limit equal to the count ends the list", *THREE, paged(limit="4")),
    case("a limit of zero takes all", *THREE, paged(limit="0")),
    case("a limit that is no number is refused", paged(limit="few")),
    case("a negative limit is refused or takes all", *THREE, paged(limit="-1")),
    case(
        "a continue that is nonsense is refused",
        Call(method="GET", path=CONFIGMAPS, query={"limit": "1", "continue": "nonsense"}),
    ),
    case(
        "continue and resourceVersion exclude each other",
        *THREE,
        paged(limit="1"),
        Call(
            method="GET",
            path=CONFIGMAPS,
            query={"limit": "1", "continue": "${page.metadata.continue}", "resourceVersion": "5"},
        ),
    ),
    case("a list at version zero", *THREE, CAUGHT_UP, get(CONFIGMAPS, resourceVersion="0")),
    case(
        "a list not older than a version",
        *THREE,
        paged(),
        get(CONFIGMAPS, resourceVersion="${page.metadata.resourceVersion}", resourceVersionMatch="NotOlderThan"),
    ),
    case(
        "a list at an exact version leaves out what came later",
        *THREE,
        paged(),
        labelled("later"),
        get(CONFIGMAPS, resourceVersion="${page.metadata.resourceVersion}", resourceVersionMatch="Exact"),
    ),
    case(
        "a list at an exact version still has what went later",
        *THREE,
        paged(),
        quietly(Call(method="DELETE", path=f"{CONFIGMAPS}/a")),
        get(CONFIGMAPS, resourceVersion="${page.metadata.resourceVersion}", resourceVersionMatch="Exact"),
    ),
    case("an exact match needs a version", get(CONFIGMAPS, resourceVersionMatch="Exact")),
    case("an exact match of zero is refused", get(CONFIGMAPS, resourceVersion="0", resourceVersionMatch="Exact")),
    case("an unknown match is refused", get(CONFIGMAPS, resourceVersion="5", resourceVersionMatch="Nearly")),
    case("a version that is no number is refused", get(CONFIGMAPS, resourceVersion="abc")),
    case(
        "a version of the future is refused after a while",
        Call(method="GET", path=CONFIGMAPS, query={"resourceVersion": "999999999"}),
    ),
    case("a list in a namespace that is not there is empty", get("/api/v1/namespaces/${ns}-absent/configmaps")),
    case("a get of what is not there is refused", get(f"{CONFIGMAPS}/absent")),
    case("a get at version zero", *THREE, CAUGHT_UP, get(f"{CONFIGMAPS}/a", resourceVersion="0")),
    case("an unknown query parameter is ignored", *THREE, get(CONFIGMAPS, nonsense="1")),
    case("pretty answers are the same document", *THREE, get(f"{CONFIGMAPS}/a", pretty="true")),
]
