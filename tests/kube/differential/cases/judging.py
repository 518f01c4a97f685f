"""What an update or a patch judges once more, and what it forgives: generated names, finalizers, kinds, owners."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, edit, get, json_patch, merge, post, quietly, strategic, until
from kube.differential.generated.kinds import KINDS, Kind
from kube.differential.objects import (
    BUDGETS,
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    WIDGETS,
    budget,
    configmap,
    deployment,
    event,
    job,
    lease,
    namespace,
    pod,
    role_binding,
    secret,
    service,
    widget,
)

ODD = "AB_c"  # neither a name nor the beginning of one
NO_METADATA: tuple[Json, ...] = ([], "", 5)
OWNED: Json = {"metadata": {"ownerReferences": [{}]}}


def of_kind(kind: Kind) -> list[Case]:
    """The same of every kind, as each has its own idea of what is judged anew."""
    name = "${ns}-a" if kind.cluster_scoped else "a"
    made = [quietly(post(kind.path, kind.build(name), "made"))]
    if kind.serves:
        made.append(until(200, get(kind.serves.format(name=name))))
    path, title = f"{kind.path}/${{made.metadata.name}}", kind.resource
    found = [
        case(
            f"generateName is judged as it is when {title} are updated",
            *made,
            merge(path, {"metadata": {"generateName": ODD}}, dryRun="All"),
        ),
        case(
            f"a finalizer without a domain is judged as it is when {title} are updated",
            *made,
            merge(path, {"metadata": {"finalizers": [ODD]}}, dryRun="All"),
            merge(path, {"metadata": {"finalizers": [""]}}, dryRun="All"),
        ),
    ]
    if not kind.serves:
        found.append(
            case(
                f"the names and finalizers of new {title} are judged",
                post(kind.path, kind.build(ODD), dryRun="All"),
                post(kind.path, kind.build("a" * 254), dryRun="All"),
                post(kind.path, kind.build(name, {"metadata": {"finalizers": [ODD]}}), dryRun="All"),
                post(kind.path, kind.build(name, {"metadata": {"name": None, "generateName": ODD}}), dryRun="All"),
                post(kind.path, kind.build(name, {"metadata": {"name": None, "generateName": "g-"}}), dryRun="All"),
                post(kind.path, kind.build(name, {"metadata": {"name": None}}), dryRun="All"),
            )
        )
    if kind.status:
        found.append(
            case(
                f"the status of {title} takes and leaves metadata as it does",
                *made,
                merge(f"{path}/status", {"metadata": {"generateName": ODD}}, dryRun="All"),
                merge(f"{path}/status", {"metadata": {"labels": {"new": "label"}}}, dryRun="All"),
                merge(f"{path}/status", {"metadata": {"labels": None}}, dryRun="All"),
                merge(f"{path}/status", {"metadata": {"finalizers": [ODD]}}, dryRun="All"),
                merge(f"{path}/status", OWNED, dryRun="All"),
                json_patch(f"{path}/status", {"op": "add", "path": "/status", "value": {}}, dryRun="All"),
                json_patch(
                    f"{path}/status",
                    {"op": "add", "path": "/status", "value": {}},
                    {"op": "remove", "path": "/status"},
                    dryRun="All",
                ),
            )
        )
    return found


def of_another_kind(title: str, path: str, body: Json, change: Json) -> Case:
    """A document that says another kind or version than its place: in a create, an update and each patch."""
    one = f"{path}/{body['metadata']['name']}"
    operations = [
        {"op": "remove", "path": f"/{key}"} if value is None else {"op": "add", "path": f"/{key}", "value": value}
        for key, value in change.items()
    ]
    other = {key: change.get(key, value) for key, value in body.items()}
    other = {key: value for key, value in other.items() if value is not None}
    steps = [
        quietly(post(path, body, "made")),
        post(path, {**other, "metadata": {**body["metadata"], "name": "other"}}, dryRun="All"),
        edit(one, "made", change, dryRun="All"),
        merge(one, change, dryRun="All"),
        json_patch(one, *operations, dryRun="All"),
        merge(f"{one}/status", change, dryRun="All"),
    ]
    if path != WIDGETS:
        steps.append(strategic(one, change, dryRun="All"))
    return case(f"{title}: {', '.join(f'{key} {value!r}' for key, value in change.items())}", *steps)


KIND_CHANGES: tuple[Json, ...] = (
    {"kind": None},
    {"kind": ""},
    {"kind": "Other"},
    {"kind": 5},
    {"apiVersion": None},
    {"apiVersion": ""},
    {"apiVersion": "v9"},
    {"apiVersion": "a/b/c"},
    {"apiVersion": 5},
    {"kind": None, "apiVersion": None},
    {"kind": "Other", "apiVersion": "v9"},
)
TYPED: tuple[tuple[str, str, Json], ...] = (
    ("a pod that says it is something else", PODS, pod()),
    ("a deployment that says it is something else", DEPLOYMENTS, deployment()),
    ("a widget that says it is something else", WIDGETS, widget()),
)


def without(title: str, path: str, body: Json, *pointers: str, sub: str = "") -> Case:
    """A stored object that a JSON patch takes something from."""
    one = f"{path}/{body['metadata']['name']}{sub}"
    removals = [json_patch(one, {"op": "remove", "path": pointer}, dryRun="All") for pointer in pointers]
    return case(title, quietly(post(path, body)), *removals)


CASES = [
    *(one for kind in KINDS for one in of_kind(kind)),
    *(of_another_kind(*kind, change) for kind in TYPED for change in KIND_CHANGES),
    case(
        "metadata of another type is refused in a patch of a custom object",
        quietly(post(WIDGETS, widget())),
        *(json_patch(f"{WIDGETS}/a", {"op": "add", "path": "/metadata", "value": value}) for value in NO_METADATA),
    ),
    without("a namespace cannot lose its status", NAMESPACES, namespace("${ns}-x"), "/status", "/status/phase"),
    without("a namespace's status is active again", NAMESPACES, namespace("${ns}-x"), "/status", sub="/status"),
    without("a pod loses no part of its status", PODS, pod(), "/status", "/status/phase", "/status/qosClass"),
    case(
        "generated names are judged where a kind is made, not where it is changed",
        *(
            step
            for path, body in ((SERVICES, service()), (LEASES, lease()), (EVENTS, event()), (BUDGETS, budget()))
            for step in (
                quietly(post(path, body)),
                merge(f"{path}/a", {"metadata": {"generateName": ODD}}),
                merge(f"{path}/a", {"metadata": {"generateName": None}}),
            )
        ),
    ),
    case(
        "a lease takes any finalizer, a config map does not",
        quietly(post(LEASES, lease())),
        merge(f"{LEASES}/a", {"metadata": {"finalizers": [ODD]}}),
        quietly(post(CONFIGMAPS, configmap())),
        merge(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": [ODD]}}),
    ),
    case(
        "the data of a secret may be a list of bytes",
        post(SECRETS, secret("a", {"data": {"key": [104, 105]}})),
        post(SECRETS, secret("b", {"data": {"key": [None]}})),
        post(SECRETS, secret("c", {"data": {"key": []}})),
        post(SECRETS, secret("d", {"data": {"key": [256]}})),
        post(SECRETS, secret("e", {"data": {"key": [True]}})),
    ),
    case(
        "the name of a bound service account is judged",
        post(ROLE_BINDINGS, role_binding(changes={"subjects": [{"kind": "ServiceAccount", "name": ODD}]})),
    ),
    case(
        "the labels that a job gives its pods stay what they are",
        quietly(post(JOBS, job())),
        *(
            json_patch(f"{JOBS}/a", {"op": "replace", "path": f"/spec/template/metadata/labels/{label}", "value": "x"})
            for label in ("controller-uid", "job-name", "batch.kubernetes.io~1job-name")
        ),
        json_patch(f"{JOBS}/a", {"op": "remove", "path": "/spec/template/metadata/labels"}),
        json_patch(f"{JOBS}/a", {"op": "remove", "path": "/spec/selector"}),
        json_patch(f"{JOBS}/a", {"op": "add", "path": "/spec/podReplacementPolicy", "value": "x"}),
        json_patch(f"{JOBS}/a", {"op": "add", "path": "/spec/podReplacementPolicy", "value": "Failed"}),
    ),
    case("a job's name is too long for the labels of its pods", post(JOBS, job("x" * 64))),
]
