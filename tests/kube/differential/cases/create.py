"""Creating: names, namespaces, kinds, metadata and what the server adds."""

from __future__ import annotations

from kube.differential.call import case, get, post, worded
from kube.differential.objects import (
    BUILDERS,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    configmap,
    deployment,
    job,
    lease,
    namespace,
    pod,
    secret,
    service,
)

EVERY_KIND = [
    case(f"a minimal {built()['kind']} is created with its defaults", post(path, built()), get(f"{path}/{name}"))
    for path, built in BUILDERS.items()
    for name in [built()["metadata"]["name"]]
]

CASES = [
    *EVERY_KIND,
    case(
        "a generated name ends in five letters",
        post(CONFIGMAPS, configmap(changes={"metadata": {"name": None, "generateName": "made-"}})),
    ),
    case(
        "a given name wins over generateName",
        post(CONFIGMAPS, configmap("given", {"metadata": {"generateName": "made-"}})),
    ),
    case(
        "a generated name of a long prefix is cut to fit",
        post(CONFIGMAPS, configmap(changes={"metadata": {"name": None, "generateName": "x" * 70}})),
    ),
    case(
        "a second object of one name is refused", post(CONFIGMAPS, configmap()), worded(post(CONFIGMAPS, configmap()))
    ),
    case(
        "a second pod of one name is refused although it is invalid",
        post(PODS, pod()),
        post(PODS, pod(changes={"spec": {"containers": []}})),
    ),
    case("a name is required", worded(post(CONFIGMAPS, configmap(changes={"metadata": {"name": None}})))),
    case("metadata is required", post(CONFIGMAPS, configmap(changes={"metadata": None}))),
    case("an empty name is no name", post(CONFIGMAPS, configmap(""))),
    case("capital letters are refused in a name", worded(post(CONFIGMAPS, configmap("Upper")))),
    case("an underscore is refused in a name", post(CONFIGMAPS, configmap("a_b"))),
    case("a name of 253 letters is accepted", post(CONFIGMAPS, configmap("x" * 253))),
    case("a name of 254 letters is refused", post(CONFIGMAPS, configmap("x" * 254))),
    case("dots are accepted in the name of a config map", post(CONFIGMAPS, configmap("a.b.c"))),
    case("dots are refused in the name of a service", post(SERVICES, service("a.b"))),
    case("a service name must start with a letter", post(SERVICES, service("1a"))),
    case("a service name of 64 letters is refused", post(SERVICES, service("x" * 64))),
    case("a namespace name has no dots", post(NAMESPACES, namespace("${ns}.dot"))),
    case("a name of dots alone is refused", post(CONFIGMAPS, configmap(".."))),
    case("a name with a slash is refused", post(CONFIGMAPS, configmap("a/b"))),
    case("a name with a percent sign is refused", post(CONFIGMAPS, configmap("a%b"))),
    case(
        "the namespace of the body must be that of the path",
        worded(post(CONFIGMAPS, configmap(changes={"metadata": {"namespace": "elsewhere"}}))),
    ),
    case(
        "a namespace on a cluster-scoped object is refused",
        post(NAMESPACES, namespace(changes={"metadata": {"namespace": "elsewhere"}})),
    ),
    case("the kind of the body must be that of the path", post(CONFIGMAPS, configmap(changes={"kind": "Secret"}))),
    case(
        "the version of the body must be that of the path", post(DEPLOYMENTS, deployment(changes={"apiVersion": "v1"}))
    ),
    case("an unknown kind in the body is refused", post(CONFIGMAPS, configmap(changes={"kind": "Nonsense"}))),
    case("kind and version may be left out", post(CONFIGMAPS, configmap(changes={"kind": None, "apiVersion": None}))),
    case(
        "a resourceVersion may not be set on creation",
        worded(post(CONFIGMAPS, configmap(changes={"metadata": {"resourceVersion": "5"}}))),
    ),
    case(
        "what the server owns in metadata is overwritten",
        post(
            CONFIGMAPS,
            configmap(
                changes={
                    "metadata": {
                        "uid": "mine",
                        "creationTimestamp": "2001-01-01T00:00:00Z",
                        "deletionTimestamp": "2001-01-01T00:00:00Z",
                        "deletionGracePeriodSeconds": 5,
                        "generation": 7,
                        "selfLink": "/a",
                    }
                }
            ),
        ),
    ),
    case(
        "status is dropped when a deployment is created",
        post(DEPLOYMENTS, deployment(changes={"status": {"replicas": 5}})),
    ),
    case("status is dropped when a pod is created", post(PODS, pod(changes={"status": {"phase": "Running"}}))),
    case("status is dropped when a job is created", post(JOBS, job(changes={"status": {"active": 3}}))),
    case(
        "generation starts at one where there is a spec",
        post(DEPLOYMENTS, deployment(changes={"metadata": {"generation": 9}})),
    ),
    case("a config map has no generation", post(CONFIGMAPS, configmap())),
    case("stringData is encoded into data", post(SECRETS, secret(changes={"stringData": {"word": "hello"}}))),
    case("stringData wins over data", post(SECRETS, secret(changes={"stringData": {"key": "hello"}}))),
    case("data of a secret must be base64", post(SECRETS, secret(changes={"data": {"key": "not base64!"}}))),
    case("a secret type is kept", post(SECRETS, secret(changes={"type": "example.com/token"}))),
    case(
        "a basic-auth secret needs a user or a password",
        post(SECRETS, secret(changes={"type": "kubernetes.io/basic-auth"})),
    ),
    case(
        "a tls secret needs both its keys",
        post(SECRETS, secret(changes={"type": "kubernetes.io/tls"})),
    ),
    case("a key of a config map is checked", post(CONFIGMAPS, configmap(changes={"data": {"a key": "x"}}))),
    case(
        "a key may not be in data and binaryData at once",
        post(CONFIGMAPS, configmap(changes={"binaryData": {"color": "YQ=="}})),
    ),
    case(
        "numbers in data are refused",
        post(CONFIGMAPS, configmap(changes={"data": {"color": 5}})),
    ),
    case(
        "an object in a namespace that is not there is refused",
        worded(post("/api/v1/namespaces/${ns}-absent/configmaps", configmap())),
    ),
    case(
        "a fraction of a second is kept in a lease",
        post(LEASES, lease(changes={"spec": {"renewTime": "2020-01-02T03:04:05.123456Z"}})),
    ),
    case(
        "a lease time without fraction gets one",
        post(LEASES, lease(changes={"spec": {"renewTime": "2020-01-02T03:04:05Z"}})),
    ),
    case(
        "a lease time with an offset is turned to UTC",
        post(LEASES, lease(changes={"spec": {"renewTime": "2020-01-02T03:04:05.5+02:00"}})),
    ),
    case("a lease time that is no time is refused", post(LEASES, lease(changes={"spec": {"renewTime": "yesterday"}}))),
    case("a POST to an object's own path is refused", post(f"{CONFIGMAPS}/a", configmap())),
]
