"""The errors of the proxy, each with its HTTP status and a code for programs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from aiohttp import web


class Refused(Exception):
    """The request is not forwarded."""

    status = 400
    code = "invalid_request"
    headers: Mapping[str, str] = {}


class RouteNotFound(Refused):
    status = 404
    code = "route_not_found"


class UnitNotFound(Refused):
    status = 404
    code = "gpu_unit_not_found"


class StorageNotFound(Refused):
    status = 404
    code = "gpu_storage_not_found"


class MethodNotAllowed(Refused):
    status = 405
    code = "method_not_allowed"
    headers: Mapping[str, str] = {"Allow": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}


class OnlyReading(MethodNotAllowed):
    """Files are served for reading."""

    headers: Mapping[str, str] = {"Allow": "GET, HEAD"}


class Forbidden(Refused):
    status = 403
    code = "forbidden"


class UnitUnreachable(Refused):
    """The unit's address does not answer HTTP."""

    status = 502
    code = "unit_unreachable"


class UnitNotReady(Refused):
    """The unit exists but is not ready: the client may retry."""

    status = 503
    code = "unit_not_ready"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class FilesDisabled(Refused):
    """The storage exists, and nobody asked to serve its files."""

    status = 503
    code = "storage_accessor_disabled"


class FilesNotReady(Refused):
    """The files are not served now: the client may retry."""

    status = 503
    code = "storage_accessor_not_ready"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class FilesUnreachable(Refused):
    """The address that serves the files does not answer HTTP."""

    status = 502
    code = "storage_accessor_unreachable"


def response_to(refused: Refused) -> web.Response:
    """The refusal in the envelope of the REST API."""
    return _envelope(refused.status, refused.code, str(refused), refused.headers)


def malformed(status: int, message: str) -> web.Response:
    """The answer to a request that is not valid HTTP."""
    return _envelope(status, Refused.code, message)


def _envelope(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    # Messages quote headers, which may hold any byte: escape what UTF-8 cannot encode.
    printable = message.encode("utf-8", "backslashreplace").decode()
    return web.Response(
        status=status,
        body=msgspec.json.encode({"error": {"code": code, "message": printable, "details": []}}),
        content_type="application/json",
        headers={**(headers or {}), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )
