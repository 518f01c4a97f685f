"""Answers and events in the words of the API server."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def failure(code: int, reason: str = "", message: str = "injected by the fault proxy") -> dict[str, Any]:
    """A Status that reports a failure; `reason` defaults to the server's usual one for `code`."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or REASONS.get(code, ""),
        "code": code,
    }


def error_event(code: int, reason: str = "") -> dict[str, Any]:
    """A watch event that reports a failure inside a 200 stream; 410 is how a server says that history was compacted."""
    return {"type": "ERROR", "object": failure(code, reason)}


def expired() -> dict[str, Any]:
    """The ERROR event of a watch whose resourceVersion is too old."""
    return error_event(410)


def bookmark(api_version: str, kind: str, resource_version: str) -> dict[str, Any]:
    """A BOOKMARK event: no change, but the client may resume from here."""
    metadata = {"resourceVersion": resource_version, "creationTimestamp": None}
    return {"type": "BOOKMARK", "object": {"apiVersion": api_version, "kind": kind, "metadata": metadata}}
