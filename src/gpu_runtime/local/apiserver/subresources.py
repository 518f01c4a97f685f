"""Subresources: status, scale, log, binding and finalize."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver import scale, verbs
from gpu_runtime.local.apiserver.calls import Call, json_response
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.documents import check_type
from gpu_runtime.local.apiserver.errors import bad_request, conflict, not_found
from gpu_runtime.local.apiserver.logs import log_query
from gpu_runtime.local.apiserver.options import delete_options
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.pods import bind as assign
from gpu_runtime.local.apiserver.strategies.pods import disrupt

Handler = Callable[[Cluster, Call], Awaitable[web.StreamResponse]]


async def replace_status(cluster: Cluster, call: Call) -> web.StreamResponse:
    return await verbs.replace(cluster, call, "status")


async def patch_status(cluster: Cluster, call: Call) -> web.StreamResponse:
    return await verbs.patch(cluster, call, "status")


async def bind(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Assigns a pod to a node, once."""
    options = call.options("CreateOptions")
    body = check_type(call.document(), "Binding", "v1", custom=False)
    node = (body.get("target") or {}).get("name", "")
    if not node:
        raise bad_request("target.name: Required value")
    subject = call.kind.subject._replace(plural="pods/binding")

    def change(pod: Object) -> Object:
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict(subject, call.name, f"pod {call.name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            taken = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict(subject, call.name, taken)
        assign(pod, node, cluster.environment.timestamp())
        return pod

    outcome = cluster.writer.update(call.kind, call.namespace, call.name, change, options, subresource="binding")
    await outcome.committed()
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


async def finalize(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Sets a namespace's spec.finalizers; an empty list lets a terminating one go."""
    return await verbs.replace(cluster, call, "finalize")


async def log(cluster: Cluster, call: Call) -> web.StreamResponse:
    """The output of one container of a pod."""
    asked = log_query(call.query, call.name, cluster.environment.now())
    record = cluster.store.get(call.kind.resource, call.kind.key(call.namespace, call.name))
    if record is None:
        raise not_found(call.kind.subject, call.name)
    pod = record.object()
    wanted = replace(asked, container=container_of(pod, asked.container))
    node = pod["spec"].get("nodeName")
    if not node:
        return web.Response(status=204, content_type="application/octet-stream")
    if cluster.store.get("nodes", node) is None:
        raise not_found(call.kind.subject, node)  # the real server words it so: it names the node as if it were a pod
    name = pod["metadata"]["name"]
    pieces = cluster.logs.read(pod, wanted)
    try:
        first = await anext(pieces, b"")
    except FileNotFoundError:
        if wanted.previous:
            raise bad_request(f'previous terminated container "{wanted.container}" in pod "{name}" not found') from None
        reason = _waiting_reason(pod, wanted.container)
        text = f'container "{wanted.container}" in pod "{name}" is waiting to start: {reason}'
        raise bad_request(text) from None
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(call.request)
    await response.write(first)
    async for piece in pieces:
        await response.write(piece)
    return response


def container_of(pod: Object, asked: str) -> str:
    """The name of the container that a request means."""
    names: list[str] = [
        one["name"] for field in ("initContainers", "containers") for one in pod["spec"].get(field) or []
    ]
    name = pod["metadata"]["name"]
    main = [one["name"] for one in pod["spec"].get("containers") or []]
    if not asked:
        if len(main) > 1 or len(names) > 1:
            inits = [one for one in names if one not in main]
            text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
            raise bad_request(text + (f" or one of the init containers: [{' '.join(inits)}]" if inits else ""))
        return str(main[0])
    if asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _waiting_reason(pod: Object, container: str) -> str:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status.get("name") == container:
            waiting: dict[str, Any] = (status.get("state") or {}).get("waiting") or {}
            return str(waiting.get("reason", "ContainerCreating"))
    return "ContainerCreating"


async def evict(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Deletes a pod on behalf of a drain; disruption budgets are stored but not enforced."""
    asked = call.options("CreateOptions")
    body = check_type(call.document(), "Eviction", "policy/v1", custom=False)
    if (body.get("metadata") or {}).get("name") != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = delete_options(call.query, body.get("deleteOptions") or {"kind": "DeleteOptions"})
    options = replace(options, dry_run=options.dry_run or asked.dry_run)

    def change(pod: Object) -> Object:
        disrupt(pod, cluster.environment.timestamp())
        return pod

    if not options.dry_run:
        cluster.writer.update(call.kind, call.namespace, call.name, change, asked, subresource="status")
    await cluster.deleter.delete(call.kind, call.namespace, call.name, options).committed()
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


SUBRESOURCES: dict[tuple[str, str], Handler] = {
    ("status", "GET"): verbs.get,
    ("status", "PUT"): replace_status,
    ("status", "PATCH"): patch_status,
    ("scale", "GET"): scale.get,
    ("scale", "PUT"): scale.replace,
    ("scale", "PATCH"): scale.patch,
    ("binding", "POST"): bind,
    ("eviction", "POST"): evict,
    ("finalize", "PUT"): finalize,
    ("log", "GET"): log,
}
