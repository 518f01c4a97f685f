"""What pods and nodes use (`kubectl top`): `metrics.k8s.io`, measured at each request."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver.calls import json_response
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status, Subject, method_not_allowed, not_found
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.selectors import parse_labels
from gpu_runtime.local.apiserver.targets import Target
from gpu_runtime.local.apiserver.usage import Measured

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
KINDS = {"pods": "PodMetrics", "nodes": "NodeMetrics"}


def group() -> dict[str, Any]:
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def resource_list() -> dict[str, Any]:
    resources = [
        {"name": name, "singularName": "", "namespaced": name == "pods", "kind": kind, "verbs": ["get", "list"]}
        for name, kind in sorted(KINDS.items())
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": resources}


def is_about_usage(target: Target) -> bool:
    return (target.group, target.version) == (GROUP, VERSION)


async def show(request: web.BaseRequest, target: Target, cluster: Cluster) -> web.Response:
    """The usage of one object, or of all that match. An object that was not measured is left out, or a 404."""
    if target.plural not in KINDS or target.subresource or (target.plural == "nodes" and target.namespace):
        raise Status(404, "NotFound", "the server could not find the requested resource", {})
    if request.method != "GET":
        raise method_not_allowed()
    assert cluster.usage is not None
    terms = parse_labels(request.query.get("labelSelector", ""))
    measured = await cluster.usage.measure()
    kind, now = KINDS[target.plural], cluster.environment.timestamp()
    found = []
    for record in cluster.store.records(target.plural, f"{target.namespace}/" if target.namespace else ""):
        obj = record.object()
        labels = obj["metadata"].get("labels") or {}
        wanted = not target.name or obj["metadata"]["name"] == target.name
        if wanted and all(term.matches(labels) for term in terms) and (used := _used(kind, obj, measured)):
            about = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if key in obj["metadata"]}
            head = {"metadata": {**about, "creationTimestamp": now}, "timestamp": now}
            found.append({**head, "window": f"{measured.seconds:.3f}s", **used})
    if not target.name:
        return json_response({"kind": f"{kind}List", "apiVersion": API_VERSION, "metadata": {}, "items": found})
    if not found:
        raise not_found(Subject(GROUP, target.plural, kind), f"{target.namespace}/{target.name}".lstrip("/"))
    return json_response({"kind": kind, "apiVersion": API_VERSION, **found[0]})


def _used(kind: str, obj: Object, measured: Measured) -> dict[str, Any] | None:
    if kind == "NodeMetrics":
        return {"usage": measured.machine.wire()}  # every node of this cluster is this machine
    containers = measured.pods.get(obj["metadata"]["uid"])
    if not containers:
        return None
    return {"containers": [{"name": name, "usage": usage.wire()} for name, usage in containers.items()]}
