"""Objects that say that they are of another kind, version or group than where they are sent, and are wrong besides."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, edit, get, json_patch, merge, post, put, quietly, strategic
from kube.differential.filling import merged
from kube.differential.objects import CONFIGMAPS, DEPLOYMENTS, PODS, WIDGETS, configmap, deployment, pod, widget

W, D = f"{WIDGETS}/a", f"{DEPLOYMENTS}/a"
MADE = quietly(post(WIDGETS, widget(changes={"spec": {"zone": "a"}}), "made"))
MADE_DEPLOYMENT = quietly(post(DEPLOYMENTS, deployment()))
OTHERS: dict[str, Json] = {
    "another kind": {"kind": "Gadget"},
    "another version": {"apiVersion": "differential.example.com/v2"},
    "another group": {"apiVersion": "other.example.com/v1"},
    "another kind and group": {"kind": "ConfigMap", "apiVersion": "v1"},
    "a malformed version": {"apiVersion": "a/b/c"},
    "an empty kind": {"kind": ""},
    "an empty version": {"apiVersion": ""},
    "a kind that is a number": {"kind": 5},
}
FAULTS: tuple[Json, ...] = (
    {},
    {"metadata": {"resourceVersion": ""}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"resourceVersion": "x"}},
    {"metadata": {"name": "b"}},
    {"metadata": {"name": ""}},
    {"metadata": {"namespace": "other"}},
    {"metadata": {"uid": "other"}},
    {"metadata": {"labels": {"a": "b c"}}},
    {"metadata": {"labels": 5}},
    {"metadata": {"finalizers": ["a b"]}},
    {"metadata": {"nonsense": 1}},
    {"spec": {"size": "x"}},
    {"spec": {"nonsense": 1}},
    {"spec": {"tags": ["a", "a"]}},
    {"spec": {"zone": "b"}},
)
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}}
MANAGED = "the real server writes anew who manages the fields, also where nothing else changes; ours keeps no managers"
SCALES: dict[str, Json] = {
    **OTHERS,
    "another version": {"apiVersion": "autoscaling/v9"},
    "the kind that it scales": {"kind": "Deployment", "apiVersion": "apps/v1"},
}


def others(other: str, said: Json) -> list[Case]:
    """A custom resource that says to be something else, in each way that it can be sent, with each fault besides."""
    wrong = [merged(said, fault) for fault in FAULTS]
    status = {"status": {"phase": "On", "nonsense": 1}}
    return [
        case(
            f"a custom resource of {other} is created",
            *(post(WIDGETS, merged(widget(), one), fieldValidation=how) for one in wrong for how in ("Strict", "Warn")),
            post(WIDGETS.replace("${ns}", "absent"), merged(widget(), said)),
            MADE,
            post(WIDGETS, merged(widget(), said)),
        ),
        case(
            f"a custom resource is replaced by one of {other}",
            MADE,
            *(edit(W, "made", one) for one in wrong),
            edit(f"{WIDGETS}/absent", "made", merged(said, {"metadata": {"name": "absent"}})),
            quietly(merge(W, {"spec": {"size": 9}})),
            edit(W, "made", said),
            edit(f"{W}/status", "made", said),
        ),
        case(
            f"a custom resource is patched to be of {other}",
            MADE,
            *(merge(W, one, fieldValidation=how) for one in wrong for how in ("Strict", "Warn")),
            json_patch(W, *({"op": "replace", "path": f"/{key}", "value": value} for key, value in said.items())),
            merge(f"{WIDGETS}/absent", said),
        ),
        case(
            f"the status of a custom resource comes with {other}",
            MADE,
            *(merge(f"{W}/status", merged(one, status)) for one in wrong),
            *(
                edit(f"{W}/status", "made", merged(merged(status, {"metadata": {"resourceVersion": ""}}), one))
                for one in wrong
            ),
            own_versions=MANAGED,
        ),
    ]


def scales(other: str, said: Json) -> Case:
    faults: tuple[Json, ...] = ({}, {"metadata": {"resourceVersion": "1"}}, {"metadata": {"name": "b"}})
    wrong = [merged(said, fault) for fault in faults]
    return case(
        f"a scale of {other}",
        MADE,
        MADE_DEPLOYMENT,
        *(call(f"{path}/scale", one) for path in (W, D) for one in wrong for call in (merge, strategic)),
        *(put(f"{path}/scale", merged(SCALE, one)) for path in (W, D) for one in wrong),
        own_versions=MANAGED,
    )


CASES = [
    *(one for other, said in OTHERS.items() for one in others(other, said)),
    *(scales(other, said) for other, said in SCALES.items()),
    case(
        "a patch that empties the version of a built-in kind",
        quietly(post(CONFIGMAPS, configmap())),
        *(
            call
            for how in ("Strict", "Warn", "Ignore")
            for call in (
                merge(f"{CONFIGMAPS}/a", {"apiVersion": ""}, fieldValidation=how),
                merge(f"{CONFIGMAPS}/a", {"apiVersion": "", "metadata": {"labels": 5}}, fieldValidation=how),
                strategic(f"{CONFIGMAPS}/a", {"apiVersion": ""}, fieldValidation=how),
                json_patch(f"{CONFIGMAPS}/a", {"op": "remove", "path": "/apiVersion"}, fieldValidation=how),
            )
        ),
    ),
    case(
        "a version that may not be set on creation is judged last, and not in a dry run",
        *(
            call
            for path, built in ((CONFIGMAPS, configmap), (WIDGETS, widget), (PODS, pod))
            for version in ("1", "0", "x", "-1")
            for call in (
                post(path, built(f"b-{version}", {"metadata": {"resourceVersion": version}}), dryRun="All"),
                post(path, built(f"c-{version}", {"metadata": {"resourceVersion": version}})),
                post(path, built("B_", {"metadata": {"resourceVersion": version}})),
                post(path.replace("${ns}", "absent"), built("b", {"metadata": {"resourceVersion": version}})),
            )
        ),
        get(CONFIGMAPS),
    ),
]
