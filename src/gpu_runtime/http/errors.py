"""Maps errors to HTTP responses, for all routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web

from gpu_runtime.api.validation import FieldError
from gpu_runtime.kube.errors import KubeError
from gpu_runtime.rest import errors as rest
from gpu_runtime.rest.errors import ErrorBody, ErrorEnvelope
from gpu_runtime.service.kubernetes_errors import refusal

STATUS: Mapping[type[rest.ServiceError], HTTPStatus] = {
    rest.InvalidRequest: HTTPStatus.BAD_REQUEST,
    rest.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    rest.Forbidden: HTTPStatus.FORBIDDEN,
    rest.Missing: HTTPStatus.NOT_FOUND,
    rest.Clash: HTTPStatus.CONFLICT,
    rest.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    rest.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    rest.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
_OF_ROUTING = {404: "route_not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}
_WORDS = {
    404: "no such route: /swagger/index.html lists all routes",
    405: "the route does not support this method: see the header Allow",
}
COMMON_HEADERS: Mapping[str, str] = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_log = structlog.get_logger("http")


def error_response(
    status: int, code: str, message: str, details: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
) -> web.Response:
    shown = [FieldError(_printable(each.field), _printable(each.message)) for each in details]
    envelope = ErrorEnvelope(error=ErrorBody(code=code, message=_printable(message), details=shown))
    body = msgspec.json.encode(envelope)
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def malformed(status: int, message: str) -> web.Response:
    """The response to a request that is not valid HTTP. No route and no middleware sees such a request."""
    response = error_response(status, _OF_ROUTING.get(status, "invalid_request"), message)
    response.headers.update(COMMON_HEADERS)
    return response


def _printable(text: str) -> str:
    """The text, with characters that UTF-8 cannot encode escaped: messages quote headers, which may hold any byte."""
    return text.encode("utf-8", "backslashreplace").decode()


def response_to(error: Exception) -> web.Response:
    """The response for an exception. An error that a client or the cluster can cause is never a 500."""
    match error:
        case web.HTTPException():
            return _of_routing(error)
        case KubeError():
            return response_to(refusal(error))
        case ConnectionError():  # the client's connection: errors of the cluster's connection are KubeErrors
            return error_response(400, "invalid_request", "the client closed the connection before the response")
        case TimeoutError():
            return response_to(rest.Unavailable("the cluster did not answer in time"))
        case rest.ServiceError():
            status = status_of(error)
            return error_response(status, error.code, error.message, error.details, _headers(error))
    _log.exception("defect", error=repr(error), exc_info=error)
    return error_response(500, "internal", "internal error: search the server's log for this request's id")


def status_of(error: rest.ServiceError) -> HTTPStatus:
    return next(status for kind, status in STATUS.items() if isinstance(error, kind))


def _headers(error: rest.ServiceError) -> dict[str, str]:
    if isinstance(error, rest.Unavailable | rest.TooManyRequests):
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, rest.Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {}


def _of_routing(error: web.HTTPException) -> web.Response:
    code = _OF_ROUTING.get(error.status, "invalid_request")
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    text = error.text or ""
    said = text if text and not text.startswith(str(error.status)) else _WORDS.get(error.status, error.reason)
    return error_response(error.status, code, said, headers=headers)
