"""What is valid and still worth a warning, and what was found before a request was refused."""

from __future__ import annotations

from kube.differential.call import Json, case, delete, merge, post, put, quietly, worded
from kube.differential.objects import (
    CLAIMS,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    WIDGETS,
    claim,
    configmap,
    container,
    job,
    namespace,
    pod,
    pod_spec,
    quota,
    service,
    widget,
)

OTHER = {"fieldRef": {"fieldPath": "metadata.name"}}
ENV: Json = [{"name": "A", "value": value} for value in ("1", "2", "$(A)x", "$(A)")]
PORTS: Json = [
    {"containerPort": 80, "name": "a"},
    {"containerPort": 80},
    {"containerPort": 81, "hostPort": 81},
    {"containerPort": 81},
    {"containerPort": 82, "hostPort": 82, "hostIP": "1.2.3.4"},
    {"containerPort": 82, "hostPort": 82},
]
AMOUNTS: Json = {
    "requests": {"memory": "100m", "ephemeral-storage": "1.5"},
    "limits": {"memory": "200m", "ephemeral-storage": "2500m"},
}
SPECS: tuple[Json, ...] = (
    pod_spec(container(env=ENV)),
    pod_spec(container(ports=PORTS), {**container(ports=[{"containerPort": 83, "name": "a"}]), "name": "two"}),
    pod_spec(container(resources=AMOUNTS)),
    pod_spec(nodeSelector={"beta.kubernetes.io/arch": "x"}),
    pod_spec(hostAliases=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]),
    pod_spec(imagePullSecrets=[{"name": "a"}, {"name": "a"}, {}]),
    pod_spec(terminationGracePeriodSeconds=-5),
    pod_spec(initContainers=[{**container(env=[ENV[0], {"name": "A", "valueFrom": OTHER}]), "name": "first"}]),
)


def template(spec: Json, **fields: Json) -> Json:
    return {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {**spec, **fields}}}


SELECTED = {"selector": {"matchLabels": {"a": "b"}}}
LONG, LONGER = "a" * 64, "a" * 254
BALANCED = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
OUTSIDE = {"externalIPs": ["1.2.3.4"]}
CASES = [
    case(
        "a pod that is odd is warned of when it is made, and never again",
        *(post(PODS, {"metadata": {"name": f"p{at}"}, "spec": spec}) for at, spec in enumerate(SPECS)),
        post(PODS, pod("a.b")),
        post(PODS, pod("a" * 70)),
        merge(f"{PODS}/p0", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a template that is odd is warned of whenever it may have changed",
        *(
            post(path, {"metadata": {"name": f"t{at}.x"}, "spec": {**SELECTED, **template(spec)}})
            for path in (DEPLOYMENTS, REPLICA_SETS)
            for at, spec in enumerate(SPECS)
        ),
        *(
            post(JOBS, {"metadata": {"name": f"t{at}.x"}, "spec": template(spec, restartPolicy="Never")})
            for at, spec in enumerate(SPECS)
        ),
        *(
            merge(f"{path}/t0.x", change)
            for path in (DEPLOYMENTS, REPLICA_SETS)
            for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 3}})
        ),
    ),
    case(
        "a part of a byte, and more requests than limits",
        post(CLAIMS, claim(changes={"spec": {"resources": {"requests": {"storage": "1500m"}}}})),
        post(QUOTAS, quota("a", {"spec": {"hard": {"requests.cpu": "3", "limits.cpu": "2"}}})),
        post(QUOTAS, quota("b", {"spec": {"hard": {"memory": "3Gi", "limits.memory": "1Gi"}}})),
        merge(f"{QUOTAS}/a", {"spec": {"hard": {"requests.cpu": "4"}}}),
    ),
    case(
        "finalizers of custom resources should have a domain and a path",
        post(WIDGETS, widget("a", {"metadata": {"finalizers": ["a", "b.c", "d.e/f", "orphan"]}})),
        merge(f"{WIDGETS}/a", {"metadata": {"finalizers": ["a", "z"]}}),
        merge(f"{WIDGETS}/a/status", {"metadata": {"finalizers": ["a", "q"]}}),
        post(WIDGETS, widget("b", {"metadata": {"finalizers": ["a b"]}})),
        own_versions="a write of the status that touches only metadata changes nothing but managers",
    ),
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
        "jobs that are deleted together leave their pods, too",
        quietly(post(JOBS, job())),
        delete(JOBS, labelSelector="a=>b"),
        delete(JOBS, propagationPolicy="Background", labelSelector="a=b"),
        delete(JOBS),
    ),
    case(
        "a service that says what its type has no use for",
        post(SERVICES, service("a", {"spec": {"externalName": "a.b"}})),
        post(SERVICES, service("b", {"spec": {"clusterIP": "None", "sessionAffinity": "ClientIP", **OUTSIDE}})),
        post(SERVICES, service("c", {"spec": {"type": "ExternalName", "externalName": "a.b", **OUTSIDE}})),
    ),
    case(
        "traffic from outside has a policy, and what nobody reaches from there has none",
        post(SERVICES, service("a", {"spec": OUTSIDE})),
        post(SERVICES, service("b", {"spec": {"externalTrafficPolicy": "Local", **OUTSIDE}})),
        post(SERVICES, service("c", {"spec": {"externalTrafficPolicy": "Cluster"}})),
        post(SERVICES, service("d", {"spec": {"type": "NodePort", **OUTSIDE}})),
        post(SERVICES, service("e", {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "odd"}})),
        merge(f"{SERVICES}/a", {"spec": {"externalIPs": None}}),
        merge(f"{SERVICES}/b", {"spec": {"externalIPs": None}}),
        merge(f"{SERVICES}/d", {"spec": {"type": "ClusterIP"}}),
    ),
    case(
        "a load balancer that asks nodes for their pods has a port for it",
        post(SERVICES, service("a", {"spec": BALANCED})),
        merge(f"{SERVICES}/a", {"spec": {"healthCheckNodePort": 30001}}),
        merge(f"{SERVICES}/a", {"spec": {"healthCheckNodePort": None}}),
        merge(f"{SERVICES}/a", {"spec": {"externalTrafficPolicy": "Cluster"}}),
        merge(f"{SERVICES}/a", {"spec": {"externalTrafficPolicy": "Local"}}),
        merge(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}),
        post(SERVICES, service("b", {"spec": {**BALANCED, "healthCheckNodePort": 5}})),
        post(SERVICES, service("c", {"spec": {"healthCheckNodePort": 31778}})),
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
