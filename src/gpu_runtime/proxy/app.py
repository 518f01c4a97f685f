"""The proxy application: units at `/units/<namespace>/<name>/...`, files at `/storages/<namespace>/<name>/...`, and one
error envelope."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
import structlog
from aiohttp import web

from gpu_runtime.api.meta.object import Key
from gpu_runtime.proxy.errors import MethodNotAllowed, OnlyReading, Refused, RouteNotFound, response_to
from gpu_runtime.proxy.forwarding import ForwardedRequest, forward, session
from gpu_runtime.proxy.guard import Guard
from gpu_runtime.proxy.storages import StorageTargets
from gpu_runtime.proxy.targets import Targets
from gpu_runtime.proxy.websockets import is_websocket, pass_messages

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# Matched against the raw path: a percent-encoded name does not match.
_ROUTE = re.compile(
    rf"(?P<prefix>/(?P<kind>units|storages)/(?P<namespace>{_LABEL})/(?P<name>{_LABEL}))"
    r"(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READING = frozenset({"GET", "HEAD"})

Count = Callable[[int], None]


@dataclass(frozen=True)
class Routes:
    """Where requests go, by the first part of their path."""

    units: Targets
    storages: StorageTargets


def application(routes: Routes, guard: Guard, count: Count = lambda _: None) -> web.Application:
    """Forwards requests to units and to the accessors of storages."""
    handler = _ProxyHandler(routes, guard, count)
    app = web.Application()
    app.cleanup_ctx.append(handler.connections)
    app.on_response_prepare.append(_nameless)
    app.router.add_route("*", r"/{path:[\s\S]*}", handler.handle)  # decoded paths may hold newlines
    return app


async def _nameless(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


class _ProxyHandler:
    def __init__(self, routes: Routes, guard: Guard, count: Count) -> None:
        self._routes = routes
        self._guard = guard
        self._count = count
        self._client: aiohttp.ClientSession | None = None
        self._log = structlog.get_logger("proxy")

    async def connections(self, _: web.Application) -> AsyncIterator[None]:
        async with session() as self._client:
            yield

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            response = await self._pass(request)
        except Refused as refused:
            response = response_to(refused)
            self._log.info("refused", code=refused.code, status=refused.status, problem=str(refused))
        self._count(response.status)
        return response

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self._guard.admit(request)
        if request.method not in _METHODS:
            raise MethodNotAllowed(f"method {request.method} is not forwarded")
        found = _ROUTE.fullmatch(request.raw_path)
        if found is None:
            raise RouteNotFound(
                "no such route: units are at /units/NAMESPACE/NAME/, files of storages at /storages/NAMESPACE/NAME/"
            )
        forwarded = self._forwarded(request, found)
        if found["path"] is None:
            # Relative links of the page would lose its name without the trailing slash.
            query = f"?{found['query']}" if found["query"] else ""
            return web.Response(status=308, headers={"Location": f"{found['prefix']}/{query}"})
        assert self._client is not None
        if found["kind"] == "units" and is_websocket(request):
            return await pass_messages(forwarded, self._client)
        return await forward(forwarded, self._client)

    def _forwarded(self, request: web.Request, found: re.Match[str]) -> ForwardedRequest:
        key, prefix, path, query = (
            Key(found["namespace"], found["name"]),
            found["prefix"],
            found["path"],
            found["query"],
        )
        if found["kind"] == "units":
            return ForwardedRequest(request, self._routes.units.find(key), prefix, path or "/", query or "")
        self._guard.admit_reading(request)
        if request.method not in _READING:
            raise OnlyReading("the files of a storage can only be read: use GET or HEAD")
        # An accessor serves its files under the same path as the proxy.
        return ForwardedRequest(request, self._routes.storages.find(key), prefix, f"{prefix}{path}", query or "")
