"""Requests that are malformed, go nowhere or ask for what is not there; who may ask at all."""

from __future__ import annotations

from kube.differential.call import TABLE, Call, case, get, post, quietly, table, with_headers, worded
from kube.differential.objects import (
    CLAIMS,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    configmap,
    deployment,
    job,
    pod,
    service,
)


def sent(body: bytes, content: str = "application/json") -> Call:
    return Call(method="POST", path=CONFIGMAPS, body=body, headers={"Content-Type": content})


def accepting(accept: str, path: str = CONFIGMAPS) -> Call:
    return with_headers(get(path), Accept=accept)


CASES = [
    case("a body that is no JSON is refused", sent(b"{nonsense")),
    case("an empty body is refused", sent(b"")),
    case("a body that is null is refused", sent(b"null")),
    case("a body that is a list is refused", sent(b"[]")),
    case("a body that is a string is refused", sent(b'"text"')),
    case("a body with a tail is refused", sent(b'{"metadata":{"name":"a"}} tail')),
    case("a body in latin-1 is refused or read", sent(b'{"metadata":{"name":"a"},"data":{"x":"\xe9"}}')),
    case("a body of an unknown type is refused", sent(b"<xml/>", "text/xml")),
    case("a body of plain text is refused", sent(b"hello", "text/plain")),
    case("a body with a charset is read", sent(b'{"metadata":{"name":"a"}}', "application/json; charset=utf-8")),
    case("a body too large is refused", sent(b'{"metadata":{"name":"a"},"data":{"x":"' + b"x" * 3_300_000 + b'"}}')),
    case(
        "an object over a megabyte is refused",
        sent(b'{"metadata":{"name":"a"},"data":{"x":"' + b"x" * 1_100_000 + b'"}}'),
    ),
    case(
        "numbers beyond an int64 are refused",
        Call(
            method="POST", path=DEPLOYMENTS, body=b'{"metadata":{"name":"a"},"spec":{"replicas":99999999999999999999}}'
        ),
    ),
    case(
        "deeply nested labels are refused",
        post(CONFIGMAPS, configmap(changes={"metadata": {"labels": {"a": {"b": "c"}}}})),
    ),
    case("metadata that is a string is refused", post(CONFIGMAPS, configmap(changes={"metadata": "a"}))),
    case("a name that is a number is refused", post(CONFIGMAPS, configmap(changes={"metadata": {"name": 5}}))),
    case("an unknown path is not found", get("/nonsense")),
    case("an unknown group is not found", get("/apis/nonsense.example.com/v1/things")),
    case("an unknown version is not found", get("/apis/apps/v9/deployments")),
    case("an unknown core version is not found", get("/api/v9/pods")),
    case("an unknown kind is not found", get("/api/v1/namespaces/${ns}/nonsense")),
    case(
        "an unknown kind of a known group is not found", post("/apis/apps/v1/namespaces/${ns}/nonsense", deployment())
    ),
    case("a namespaced path of a cluster-scoped kind is not found", get("/api/v1/namespaces/${ns}/nodes")),
    case("a path with a slash at its end", get(f"{CONFIGMAPS}/")),
    case("a path with two slashes", get("/api/v1//pods")),
    case("a list of all namespaces cannot be posted to", post("/api/v1/configmaps", configmap())),
    case(
        "a cluster-wide delete of a namespaced collection is refused", Call(method="DELETE", path="/api/v1/configmaps")
    ),
    case("a namespace collection cannot be deleted", Call(method="DELETE", path=NAMESPACES)),
    case("an unknown method is refused", Call(method="TRACE", path=CONFIGMAPS)),
    case("a HEAD is answered", Call(method="HEAD", path=CONFIGMAPS)),
    case("a wrong token is refused", with_headers(get(CONFIGMAPS), Authorization="Bearer nonsense")),
    case("an unknown accept is refused", accepting("text/html")),
    case("an accept of everything is JSON", accepting("*/*")),
    case("an accept with a fallback is JSON", accepting("application/vnd.kubernetes.protobuf;q=0.1, application/json")),
    case("an accept of YAML of a missing object", accepting("application/yaml", f"{CONFIGMAPS}/absent")),
    case("a health check is answered", get("/healthz"), get("/readyz"), get("/livez")),
    case("a table of pods", quietly(post(PODS, pod())), table(PODS), table(f"{PODS}/a")),
    case(
        "a table of a bound and running pod",
        quietly(post(PODS, pod(nodeName="here"))),
        quietly(
            Call(
                method="PATCH",
                path=f"{PODS}/a/status",
                headers={"Content-Type": "application/merge-patch+json"},
                body={
                    "status": {
                        "phase": "Running",
                        "podIP": "10.1.2.3",
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "containerStatuses": [
                            {
                                "name": "main",
                                "ready": True,
                                "restartCount": 2,
                                "image": "x",
                                "imageID": "x",
                                "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}},
                            }
                        ],
                    }
                },
            )
        ),
        table(PODS),
    ),
    case(
        "a table of a waiting pod",
        quietly(post(PODS, pod(nodeName="here"))),
        quietly(
            Call(
                method="PATCH",
                path=f"{PODS}/a/status",
                headers={"Content-Type": "application/merge-patch+json"},
                body={
                    "status": {
                        "phase": "Pending",
                        "containerStatuses": [
                            {
                                "name": "main",
                                "ready": False,
                                "restartCount": 0,
                                "image": "x",
                                "imageID": "",
                                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}},
                            }
                        ],
                    }
                },
            )
        ),
        table(PODS),
    ),
    case(
        "a table of a finished pod",
        quietly(post(PODS, pod(nodeName="here"))),
        quietly(
            Call(
                method="PATCH",
                path=f"{PODS}/a/status",
                headers={"Content-Type": "application/merge-patch+json"},
                body={
                    "status": {
                        "phase": "Failed",
                        "containerStatuses": [
                            {
                                "name": "main",
                                "ready": False,
                                "restartCount": 0,
                                "image": "x",
                                "imageID": "x",
                                "state": {"terminated": {"exitCode": 3, "reason": "Error"}},
                            }
                        ],
                    }
                },
            )
        ),
        table(PODS),
    ),
    case(
        "a table of a terminating pod",
        quietly(post(PODS, pod(nodeName="here"))),
        quietly(Call(method="DELETE", path=f"{PODS}/a")),
        table(PODS),
    ),
    case("a table of deployments", quietly(post(DEPLOYMENTS, deployment())), table(DEPLOYMENTS)),
    case("a table of jobs", quietly(post(JOBS, job())), table(JOBS)),
    case(
        "a table of services",
        quietly(post(SERVICES, service("headless", {"spec": {"clusterIP": "None"}}))),
        table(SERVICES),
    ),
    case(
        "a table of claims",
        quietly(
            post(
                CLAIMS,
                {
                    "metadata": {"name": "a"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                        "resources": {"requests": {"storage": "1Gi"}},
                        "storageClassName": "x",
                    },
                },
            )
        ),
        table(CLAIMS),
    ),
    case("a table of config maps", quietly(post(CONFIGMAPS, configmap())), table(CONFIGMAPS)),
    case("a table of a namespace", table(f"{NAMESPACES}/${{ns}}")),
    case("an empty table has its columns", table(PODS), table(DEPLOYMENTS)),
    case(
        "a table with whole objects", quietly(post(CONFIGMAPS, configmap())), table(CONFIGMAPS, includeObject="Object")
    ),
    case("a table without objects", quietly(post(CONFIGMAPS, configmap())), table(CONFIGMAPS, includeObject="None")),
    case("a table of what is not there", table(f"{CONFIGMAPS}/absent")),
    case(
        "partial metadata is answered",
        quietly(post(CONFIGMAPS, configmap())),
        accepting("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", f"{CONFIGMAPS}/a"),
        accepting("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    ),
    case("a created object may be answered as a table", with_headers(post(CONFIGMAPS, configmap()), Accept=TABLE)),
    case(
        "the words of a missing object are given",
        worded(get(f"{DEPLOYMENTS}/absent")),
        worded(get(f"{PODS}/absent")),
        worded(get(f"{NAMESPACES}/absent")),
    ),
    case(
        "the words of an invalid pod are given",
        worded(post(PODS, pod(changes={"spec": {"containers": [{"name": "main"}]}}))),
    ),
    case(
        "the words of a missing selector are given",
        worded(post(DEPLOYMENTS, deployment(changes={"spec": {"selector": None}}))),
    ),
    case(
        "the words of an unmatched selector are given",
        worded(post(DEPLOYMENTS, deployment(changes={"spec": {"selector": {"matchLabels": {"app": "x"}}}}))),
    ),
    case(
        "the words of a bad quantity are given",
        worded(
            post(
                PODS,
                pod(
                    changes={
                        "spec": {
                            "containers": [{"name": "a", "image": "b", "resources": {"limits": {"memory": "lots"}}}]
                        }
                    }
                ),
            )
        ),
    ),
    case(
        "the words of a wrong type are those of the real server",
        worded(post(DEPLOYMENTS, deployment(changes={"spec": {"replicas": "3"}}))),
    ),
]
