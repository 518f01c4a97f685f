"""The application: routes under one base path, one response envelope, one audit line for each change."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry

from gpu_runtime.http.deadline import LIMIT, REQUEST_SECONDS
from gpu_runtime.http.errors import COMMON_HEADERS, response_to
from gpu_runtime.http.guard import Guard
from gpu_runtime.http.load import LOAD, Load
from gpu_runtime.http.metrics import Metrics
from gpu_runtime.http.route import LARGE_BODY_LIMIT, OPERATION_ID, OWNER, SERVICES, AnyRoute
from gpu_runtime.service.services import Services

BASE = "/api/v1"
BODY_LIMIT = 1024 * 1024
MOST_IN_FLIGHT = 256
REQUEST_ID_HEADER = "X-Request-ID"
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
OPEN_TO_ALL = "open_to_all"
"""Attribute of a handler that needs no token."""
MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

_audit = structlog.get_logger("audit")


def application(
    routes: Iterable[AnyRoute],
    services: Services,
    guard: Guard,
    registry: CollectorRegistry,
    *,
    body_limit: int = BODY_LIMIT,
    most_in_flight: int = MOST_IN_FLIGHT,
    request_seconds: float = REQUEST_SECONDS,
    large_body_limit: int = BODY_LIMIT,
) -> web.Application:
    """The REST API."""
    load = Load(most_in_flight)
    app = web.Application(middlewares=[_envelope(guard, load, Metrics(registry, load))], client_max_size=body_limit)
    app[SERVICES] = services
    app[LOAD] = load
    app[LARGE_BODY_LIMIT] = max(large_body_limit, body_limit)
    app[LIMIT] = request_seconds
    for route in routes:
        app.router.add_route(route.method, BASE + route.path, _handler(route))
    app.on_response_prepare.append(_common_headers)
    return app


def _handler(route: AnyRoute) -> _Handle:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await route.handle(request)

    setattr(handle, OPEN_TO_ALL, route.open)
    return handle


def _envelope(guard: Guard, load: Load, metrics: Metrics) -> Middleware:
    @web.middleware
    async def envelope(request: web.Request, handler: _Handle) -> web.StreamResponse:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        request[REQUEST_ID] = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        began = time.perf_counter()
        code = ""
        try:
            with structlog.contextvars.bound_contextvars(request_id=request[REQUEST_ID]), load.carry(request):
                guard.admit(request, open_to_all=getattr(handler, OPEN_TO_ALL, False))
                response = await handler(request)
        except Exception as error:
            code = getattr(error, "code", type(error).__name__)
            response = response_to(error)
        metrics.ended(request, response, time.perf_counter() - began)
        if request.method in MUTATING:
            _record(request, response, str(code))
        return response

    return envelope


def _record(request: web.Request, response: web.StreamResponse, code: str) -> None:
    """Logs the audit line: owner, method, path, id and status. Never the body: it may contain secrets."""
    _audit.info(
        "change",
        who=request.get(OWNER) or "anonymous",
        remote=request.remote,
        method=request.method,
        path=request.path,
        operation_id=request.get(OPERATION_ID, ""),
        status=response.status,
        outcome=code or HTTPStatus(response.status).phrase,
        request_id=request[REQUEST_ID],
    )


async def _common_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault(REQUEST_ID_HEADER, request.get(REQUEST_ID, ""))
    for name, value in COMMON_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)
