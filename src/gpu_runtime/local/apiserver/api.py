"""The HTTP entry point: handles every request and answers every failure with a Status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver import discovery, reports, top, verbs
from gpu_runtime.local.apiserver.auth import Authenticator
from gpu_runtime.local.apiserver.builtin import builtin_groups, data
from gpu_runtime.local.apiserver.calls import Call, json_response
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status, internal, method_not_allowed, not_found, verb_not_supported
from gpu_runtime.local.apiserver.health import Health
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.negotiation import wanted_form, wants_yaml
from gpu_runtime.local.apiserver.openapi import OpenApi
from gpu_runtime.local.apiserver.records import decode
from gpu_runtime.local.apiserver.reviews import is_review, review
from gpu_runtime.local.apiserver.store import WriteFailed
from gpu_runtime.local.apiserver.streams import STREAMS
from gpu_runtime.local.apiserver.subresources import SUBRESOURCES
from gpu_runtime.local.apiserver.targets import Target, parse_target

AT_ITS_ADDRESS = "a pod's ports are open to this machine at its address (kubectl get pods -o wide)"
NO_STREAMS = {
    "exec": "add a container to the pod to look inside it",
    "attach": "kubectl logs --follow shows the output of a container",
    "portforward": AT_ITS_ADDRESS,
    "proxy": AT_ITS_ADDRESS,
}
"""Subresources that need a two-way connection, each with the alternative that the error message names."""
LARGEST_BODY = 3 * 1024 * 1024

Handler = Callable[[Cluster, Call], Awaitable[web.StreamResponse]]

COLLECTION: dict[str, Handler] = {
    "GET": verbs.list_or_watch,
    "POST": verbs.create,
    "DELETE": verbs.delete_collection,
}
OBJECT: dict[str, Handler] = {
    "GET": verbs.get,
    "PUT": verbs.replace,
    "PATCH": verbs.patch,
    "DELETE": verbs.delete,
}
NEVER_OF_SUBRESOURCES = {"POST": "create", "DELETE": "delete"}
"""HTTP methods that no subresource of a custom kind serves, each with the verb that the error names."""


def _fits(target: Target, kind: Kind) -> bool:
    """Whether the path gives a namespace exactly where the kind needs one."""
    if kind.namespaced:
        return bool(target.namespace) or not target.name
    return not target.namespace


def _failed(status: Status) -> web.Response:
    return json_response(status.wire(), status.code, status.headers)


def _as_yaml(answer: web.Response) -> web.Response:
    import yaml  # noqa: PLC0415 - hardly any client asks for it

    if answer.content_type != "application/json" or not isinstance(answer.body, bytes):
        return answer
    text = yaml.safe_dump(decode(answer.body))
    kept = [(name, value) for name, value in answer.headers.items() if not name.startswith("Content-")]
    return web.Response(text=text, status=answer.status, content_type="application/yaml", headers=kept)


def no_resource() -> Status:
    return Status(404, "NotFound", "the server could not find the requested resource", {})


def _no_streams(target: Target) -> Status:
    text = f"pods/{target.subresource} is not served by the embedded API server; {NO_STREAMS[target.subresource]}"
    return Status(404, "NotFound", text, {})


def page_not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


class Api:
    """Answers requests about a cluster."""

    def __init__(self, cluster: Cluster, authenticator: Authenticator, address: str, health: Health) -> None:
        self._cluster = cluster
        self._health = health
        self._authenticator = authenticator
        self._address = address
        self._openapi = OpenApi(cluster.registry)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handles one request. No input of a client causes a traceback."""
        answer = await self._answer(request)
        self._health.answered(request.method, answer.status)
        if isinstance(answer, web.Response) and wants_yaml(request.headers.get("Accept", "")):
            return _as_yaml(answer)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._authenticator.check(request)
            target = parse_target(request.rel_url.raw_path)
            if target is None:
                return self._document(request)
            return await self._resource(request, target)
        except Status as status:
            if request.method != "GET":
                # The refusal may depend on a write that is not on disk yet and that a crash would undo: wait for it.
                await self._cluster.store.settled()
            return _failed(status)
        except WriteFailed as failure:
            reports.refused("write failed", error=str(failure))
            return _failed(internal(f"the data directory cannot be written: {failure}"))
        except web.HTTPRequestEntityTooLarge:
            text = f"Request entity too large: limit is {LARGEST_BODY}"
            return _failed(Status(413, "RequestEntityTooLarge", text))
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            reports.failed("request failed", method=request.method, path=request.path)
            return _failed(internal("unexpected failure; the server's log has the details"))

    async def _resource(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        kind = self._cluster.registry.find(target.group, target.version, target.plural)
        if self._cluster.usage and top.is_about_usage(target):
            return await top.show(request, target, self._cluster)
        if is_review(target):
            return await review(request, target, self._cluster.environment)
        if kind is None or not _fits(target, kind):
            if target.group and target.group not in builtin_groups():
                return page_not_found()
            raise no_resource()
        if target.subresource:
            handler = self._subresource(request, kind, target)
        elif target.name:
            handler = OBJECT.get(request.method)
        else:
            handler = COLLECTION.get(request.method)
            if request.method in ("POST", "DELETE") and kind.namespaced and not target.namespace:
                handler = None
            if request.method == "DELETE" and "deletecollection" not in kind.verbs:
                handler = None
        if handler is None:
            if kind.custom and target.subresource and request.method in NEVER_OF_SUBRESOURCES:
                raise verb_not_supported(kind.subject, NEVER_OF_SUBRESOURCES[request.method])
            raise method_not_allowed()
        body = await request.read() if request.method != "GET" else b""
        form = wanted_form(request.headers.get("Accept", ""))
        call = Call(request, kind, target, body, form)
        try:
            return await handler(self._cluster, call)
        except Status as refused:
            refused.headers.extend(call.headers())  # warnings from before the refusal
            raise

    def _subresource(self, request: web.BaseRequest, kind: Kind, target: Target) -> Handler | None:
        if kind.kind == "Pod" and target.subresource in NO_STREAMS:
            if self._cluster.shells is None or target.subresource not in STREAMS:
                raise _no_streams(target)
            return STREAMS[target.subresource] if request.method in ("GET", "POST") else None
        if target.subresource not in kind.subresources:
            raise not_found(kind.subject, target.name) if kind.custom else no_resource()
        return SUBRESOURCES.get((target.subresource, request.method))

    def _document(self, request: web.BaseRequest) -> web.Response:
        """Answers requests that are not about objects: discovery, OpenAPI, health."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if request.rel_url.raw_path.startswith(("/api/", "/apis/")) and "//" in request.rel_url.raw_path:
            raise no_resource()
        parts = request.path.strip("/").split("/")
        if parts[0] in ("healthz", "livez"):
            return web.Response(text="ok")
        if parts[0] == "readyz":
            return self._health.ready()
        if parts == ["metrics"]:
            return self._health.metrics()
        found = self._discovered(parts)
        return page_not_found() if found is None else json_response(found)

    def _discovered(self, parts: list[str]) -> Any:
        registry = self._cluster.registry
        if self._cluster.usage:
            match parts:
                case ["apis"]:
                    listed = discovery.group_list(registry)
                    return {**listed, "groups": [*listed["groups"], top.group()]}
                case ["apis", top.GROUP]:
                    return {"kind": "APIGroup", "apiVersion": "v1", **top.group()}
                case ["apis", top.GROUP, top.VERSION]:
                    return top.resource_list()
        match parts:
            case ["version"]:
                return data()["version"]
            case ["api"]:
                return discovery.core_versions(self._address)
            case ["api", version]:
                return discovery.resource_list(registry, "", version)
            case ["apis"]:
                return discovery.group_list(registry)
            case ["apis", group]:
                return discovery.one_group(registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(registry, group, version)
            case ["openapi", "v3"]:
                return self._openapi.index()
            case ["openapi", "v3", *rest]:
                return self._openapi.document("/".join(rest))
        return None
