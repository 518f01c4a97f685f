"""The product's own kinds: nothing about them may differ."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, delete, edit, get, merge, post, quietly, table, watch, worded
from kube.differential.generated.kinds import OURS, PRODUCT, sample

POOLS, UNITS, STORAGES, FUNCTIONS, OPERATIONS = (
    f"{OURS}/{kind}" for kind in ("stockpools", "gpuunits", "gpustorages", "gpufunctions", "operations")
)
pool, unit, storage, function, operation = (
    sample(kind) for kind in ("stockpool", "gpuunit", "gpustorage", "gpufunction", "operation")
)
HELD = {"metadata": {"finalizers": ["runtime.lokiwager.io/attached"]}}
READY = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}


def pooled(title: str, /, **spec: Json) -> Case:
    return case(title, post(POOLS, pool("a", {"spec": spec})))


def united(title: str, /, **spec: Json) -> Case:
    return case(title, post(UNITS, unit("a", {"spec": spec})))


def changed(title: str, path: str, body: Json, spec: Json) -> Case:
    return case(title, quietly(post(path, body)), worded(merge(f"{path}/a", {"spec": spec})))


EVERY_KIND = [
    case(
        f"a sample of {kind.resource} lives its life",
        post(kind.path, kind.build("a"), "made"),
        get(f"{kind.path}/a"),
        table(kind.path),
        edit(f"{kind.path}/a", "made", kind.mutable[0]),
        get(kind.path),
        watch(kind.path, 1),
        delete(f"{kind.path}/a", {"preconditions": {"uid": "${made.metadata.uid}"}}),
        get(f"{kind.path}/a"),
    )
    for kind in PRODUCT
]

CASES = [
    *EVERY_KIND,
    pooled("a pool needs a spec name", specName=None),
    pooled("a pool needs replicas", replicas=None),
    pooled("a pool of less than nothing is refused", replicas=-1),
    pooled("a pool of half a pod is refused", replicas=1.5),
    pooled("a pool of too many is refused", replicas=10001),
    pooled("a pool with a bad image is refused", image="not an image"),
    pooled("a pool with an unreadable quantity is accepted", memory="lots"),
    pooled(
        "a pool with a port twice is refused", template={"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}
    ),
    pooled("a pool with a port out of range is refused", template={"ports": [{"name": "a", "port": 0}]}),
    pooled("a pool with an unknown field is pruned", nonsense=1, template={"more": 1}),
    pooled("several faults of a pool are all named", replicas=-1, gpu=-1, specName="-"),
    united("a null mount of a unit is no object", storageMounts=[None]),
    united("a null port of a unit is no object", template={"ports": [None, {"name": "a", "port": 1}]}),
    pooled("a null variable of a pool is no object", template={"envs": [None]}),
    united("a unit with a probe gets its defaults", template={"readinessProbe": {"httpGet": {"port": "http"}}}),
    united("a unit with a probe port that is a number", template={"readinessProbe": {"tcpSocket": {"port": 8080}}}),
    united(
        "a unit with a probe port out of range is refused", template={"readinessProbe": {"tcpSocket": {"port": 70000}}}
    ),
    united("a unit with a serverless block gets its defaults", serverless={"enabled": True, "framework": {}}),
    united(
        "a unit with a mount twice is refused",
        storageMounts=[{"name": "s", "mountPath": "/a"}, {"name": "s", "mountPath": "/b"}],
    ),
    united("a unit with a variable without a name is refused", template={"envs": [{"value": "x"}]}),
    united("a unit with a port that is a string is refused", template={"ports": [{"name": "http", "port": "8080"}]}),
    case("an empty unit is refused", post(UNITS, unit("a", {"spec": None}))),
    changed("the memory of a unit is immutable", UNITS, unit("a"), {"memory": "9Gi"}),
    changed("the memory of a unit cannot be taken away", UNITS, unit("a"), {"memory": None}),
    changed("a gpu count cannot be changed", UNITS, unit("a"), {"gpu": 4}),
    changed("the spec name of a pool is immutable", POOLS, pool("a"), {"specName": "other"}),
    changed("the class of a storage is immutable", STORAGES, storage("a"), {"storageClassName": "other"}),
    changed("the class of a storage falls back to its default", STORAGES, storage("a"), {"storageClassName": None}),
    changed("a storage cannot be prepared later", STORAGES, storage("a"), {"prepare": {"fromImage": "a:1"}}),
    changed("the hash of an operation is immutable", OPERATIONS, operation("a"), {"requestHash": "1" * 64}),
    changed("the size of a storage may change", STORAGES, storage("a"), {"size": "9Gi"}),
    case(
        "a pool is scaled",
        quietly(post(POOLS, pool("a"))),
        get(f"{POOLS}/a/scale"),
        merge(f"{POOLS}/a/scale", {"spec": {"replicas": 4}}),
        get(f"{POOLS}/a"),
    ),
    case(
        "a pool is not scaled below nothing",
        quietly(post(POOLS, pool("a"))),
        merge(f"{POOLS}/a/scale", {"spec": {"replicas": -1}}),
    ),
    case(
        "a pool's scale shows its status",
        quietly(post(POOLS, pool("a"))),
        quietly(merge(f"{POOLS}/a/status", {"status": {"replicas": 3, "selector": "a=b"}})),
        get(f"{POOLS}/a/scale"),
        table(POOLS),
    ),
    case(
        "conditions of a unit are kept",
        quietly(post(UNITS, unit("a"))),
        merge(f"{UNITS}/a/status", {"status": {"phase": "Ready", "conditions": [READY]}}),
        table(UNITS),
    ),
    case(
        "a condition type comes once",
        quietly(post(UNITS, unit("a"))),
        merge(f"{UNITS}/a/status", {"status": {"conditions": [READY, READY]}}),
    ),
    case(
        "a condition needs its fields",
        quietly(post(UNITS, unit("a"))),
        merge(f"{UNITS}/a/status", {"status": {"conditions": [{"type": "Ready"}]}}),
    ),
    case(
        "an unknown phase is refused",
        quietly(post(UNITS, unit("a"))),
        merge(f"{UNITS}/a/status", {"status": {"phase": "Odd"}}),
    ),
    case(
        "status and spec are written apart",
        quietly(post(UNITS, unit("a"), "made")),
        merge(f"{UNITS}/a/status", {"spec": {"image": "x:1"}, "status": {"nodeName": "n"}}),
        merge(f"{UNITS}/a", {"spec": {"image": "x:1"}, "status": {"nodeName": "m"}}),
        edit(f"{UNITS}/a", "made", {"spec": {"image": "y:1"}}),
    ),
    case(
        "a claim is a compare-and-set",
        quietly(post(UNITS, unit("a"), "made")),
        edit(f"{UNITS}/a", "made", {"metadata": {"annotations": {"runtime.lokiwager.io/claimed-by": "one"}}}),
        edit(f"{UNITS}/a", "made", {"metadata": {"annotations": {"runtime.lokiwager.io/claimed-by": "two"}}}),
    ),
    case(
        "a claimed unit is deleted at its version",
        quietly(post(UNITS, unit("a"), "made")),
        quietly(merge(f"{UNITS}/a", {"spec": {"image": "x:1"}}, "claimed")),
        delete(
            f"{UNITS}/a",
            {"preconditions": {"uid": "${made.metadata.uid}", "resourceVersion": "${made.metadata.resourceVersion}"}},
        ),
        delete(
            f"{UNITS}/a",
            {
                "preconditions": {
                    "uid": "${made.metadata.uid}",
                    "resourceVersion": "${claimed.metadata.resourceVersion}",
                }
            },
        ),
    ),
    case(
        "a merge patch that carries uid and version is guarded by both",
        quietly(post(POOLS, pool("a"), "made")),
        merge(
            f"{POOLS}/a",
            {
                "metadata": {"uid": "${made.metadata.uid}", "resourceVersion": "${made.metadata.resourceVersion}"},
                "spec": {"replicas": 2},
            },
        ),
        merge(
            f"{POOLS}/a",
            {
                "metadata": {"uid": "${made.metadata.uid}", "resourceVersion": "${made.metadata.resourceVersion}"},
                "spec": {"replicas": 3},
            },
        ),
        merge(f"{POOLS}/a", {"metadata": {"uid": "another"}, "spec": {"replicas": 3}}),
    ),
    case(
        "a held storage stays until it is detached",
        quietly(post(STORAGES, storage("a", HELD))),
        delete(f"{STORAGES}/a"),
        merge(f"{STORAGES}/a/status", {"metadata": {"finalizers": None}, "status": {"phase": "Ready"}}),
        merge(f"{STORAGES}/a", {"metadata": {"finalizers": None}}),
        get(f"{STORAGES}/a"),
    ),
    case("an operation is created once", post(OPERATIONS, operation("a")), worded(post(OPERATIONS, operation("a")))),
    case("an operation of an unknown type is refused", post(OPERATIONS, operation("a", {"spec": {"type": "Magic"}}))),
    case(
        "an operation keeps its request",
        post(OPERATIONS, operation("a", {"spec": {"request": {"any": {"thing": [1, 2]}}}})),
    ),
    case(
        "a function gets its defaults",
        post(FUNCTIONS, function("a", {"spec": {"retry": None, "framework": None, "maxWorkers": None}})),
    ),
    case("a function needs an image", post(FUNCTIONS, function("a", {"spec": {"unit": {"image": None}}}))),
    case(
        "a function with a bad back-off is refused",
        post(FUNCTIONS, function("a", {"spec": {"retry": {"backoffSeconds": ["x"]}}})),
    ),
    case(
        "units are selected by label",
        quietly(post(UNITS, unit("a", {"metadata": {"labels": {"spec": "g1"}}}))),
        quietly(post(UNITS, unit("b"))),
        get(UNITS, labelSelector="spec=g1"),
        get(UNITS, labelSelector="spec!=g1"),
        get(UNITS, fieldSelector="metadata.name=b"),
    ),
]
