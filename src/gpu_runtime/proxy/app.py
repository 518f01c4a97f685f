"""The proxy application: `/units/<namespace>/<name>/...`, and one error envelope."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import aiohttp
import structlog
from aiohttp import web

from gpu_runtime.api.meta.object import Key
from gpu_runtime.proxy.errors import MethodNotAllowed, Refused, RouteNotFound, response_to
from gpu_runtime.proxy.forwarding import ForwardedRequest, forward, session
from gpu_runtime.proxy.guard import Guard
from gpu_runtime.proxy.targets import Targets
from gpu_runtime.proxy.websockets import is_websocket, pass_messages

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# Matched against the raw path: a percent-encoded name does not match.
_UNIT = re.compile(
    rf"(?P<prefix>/units/(?P<namespace>{_LABEL})/(?P<name>{_LABEL}))(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Count = Callable[[int], None]


def application(targets: Targets, guard: Guard, count: Count = lambda _: None) -> web.Application:
    """Forwards requests to units."""
    handler = _ProxyHandler(targets, guard, count)
    app = web.Application()
    app.cleanup_ctx.append(handler.connections)
    app.on_response_prepare.append(_nameless)
    app.router.add_route("*", "/{path:.*}", handler.handle)
    return app


async def _nameless(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


class _ProxyHandler:
    def __init__(self, targets: Targets, guard: Guard, count: Count) -> None:
        self._targets = targets
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
        found = _UNIT.fullmatch(request.raw_path)
        if found is None:
            raise RouteNotFound("no such route: units are at /units/NAMESPACE/NAME/")
        target = self._targets.find(Key(found["namespace"], found["name"]))
        if found["path"] is None:
            # Relative links of the unit's page would lose the unit's name without the trailing slash.
            query = f"?{found['query']}" if found["query"] else ""
            return web.Response(status=308, headers={"Location": f"{found['prefix']}/{query}"})
        assert self._client is not None
        forwarded = ForwardedRequest(request, target, found["prefix"], found["path"], found["query"] or "")
        if is_websocket(request):
            return await pass_messages(forwarded, self._client)
        return await forward(forwarded, self._client)
