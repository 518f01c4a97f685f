"""What a user's function is called with, and what it may give back besides plain values."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any


class BadInput(Exception):
    """Raised by a user's function for a payload that no further try can make work. The invocation fails with 400."""


class Reply:
    """A result with another content type, headers or status than the usual JSON and 200."""

    def __init__(
        self,
        body: Any,
        *,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> None:
        self.body = body
        raw = isinstance(body, bytes | bytearray | memoryview)
        self.content_type = content_type or ("application/octet-stream" if raw else "application/json")
        self.headers = dict(headers or {})
        self.status = status
        if self.content_type != "application/json" and not raw:
            self.body = str(body).encode()


class Call:
    """One invocation, as the worker describes it."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.payload = _payload(request)
        self.invocation_id: str = request.get("invocationID", "")
        self.function: str = request.get("serverlessRequestID", "")
        self.attempt: int = request.get("attempt", 1)
        self.timeout_seconds: float | None = request.get("timeoutSeconds")
        self.content_type: str = request.get("contentType", "application/json")
        self.headers: dict[str, str] = request.get("headers") or {}
        self.attributes: dict[str, str] = request.get("attributes") or {}
        self.cancelled = False
        """True when nobody waits for the result any more: a long plain function may look at it and return early."""


def parse_call(body: bytes) -> Call:
    """The call in a request's body. BadInput when it is not a worker's request."""
    try:
        request = json.loads(body)
        if not isinstance(request, dict):
            raise BadInput("the request is not a JSON object")
        return Call(request)
    except (ValueError, binascii.Error) as error:
        raise BadInput(f"the request is not valid JSON: {error}") from error


def _payload(request: Mapping[str, Any]) -> Any:
    if "payloadBase64" in request:
        return base64.b64decode(request["payloadBase64"], validate=True)
    return request.get("payload")
