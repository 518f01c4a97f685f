"""A validated request for one invocation, and the hash that tells a replay from another request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

import msgspec

from gpu_runtime.api.validation import FieldError
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.invocations import SubmitInvocation
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.service.operations.request_hash import request_hash

JSON = "application/json"
LONGEST_CONTENT_TYPE = 256
MOST_HEADER_BYTES = 32 * 1024
"""Of headers and attributes together: they travel in one message with a payload of up to 512 KiB."""
# Not hashed. The subject holds function and id. The others say how the caller waits, not what runs.
_NOT_HASHED = frozenset({"serverlessRequestID", "namespace", "invocationID", "mode", "waitSeconds", "payload"})
_TOKEN_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True)
class Payload:
    """The payload as bytes. `value` is the decoded JSON; None for other content types, and for JSON null."""

    data: bytes
    content_type: str = JSON
    value: Any = None

    @property
    def is_json(self) -> bool:
        return self.content_type == JSON


@dataclass(frozen=True)
class Submission:
    """One invocation to accept."""

    function: Function
    invocation_id: str
    """Empty: the client left the choice to us."""
    request: SubmitInvocation
    payload: Payload
    request_hash: str
    is_new: bool = False
    """The id was just made up here, so nobody has used it."""

    @classmethod
    def of(
        cls, request: SubmitInvocation, sent: Mapping[str, Any], payload: Payload, *, namespace: str, where: str = ""
    ) -> Submission:
        """InvalidRequest for what the schema of the request cannot express. `where` is the path of the request in the
        body."""
        if errors := entry_errors(request):
            raise InvalidRequest.of([FieldError(where + error.field, error.message) for error in errors])
        return cls(
            function=Function(namespace, request.serverlessRequestID),
            invocation_id=request.invocationID or "",
            request=request,
            payload=payload,
            request_hash=invocation_hash(sent, payload),
        )

    def with_id(self) -> Submission:
        """The same with an id: one of ours if the client chose none."""
        return self if self.invocation_id else replace(self, invocation_id=new_invocation_id(), is_new=True)


def new_invocation_id() -> str:
    return f"inv-{uuid4().hex}"


def invocation_hash(sent: Mapping[str, Any], payload: Payload) -> str:
    """SHA-256 over what runs. Unlike in the other fields, nulls and empty values in a payload have a meaning."""
    fields = {name: value for name, value in sent.items() if name not in _NOT_HASHED}
    return sha256(
        b"\n".join(
            (
                request_hash(SubmitInvocation, fields).encode(),
                payload.content_type.encode("utf-8", "backslashreplace"),
                _canonical(payload),
            )
        )
    ).hexdigest()


def _canonical(payload: Payload) -> bytes:
    """The same bytes for the same JSON, whatever the order of its keys. `json` also writes numbers above 64 bits."""
    if not payload.is_json:
        return payload.data
    return json.dumps(payload.value, sort_keys=True, separators=(",", ":")).encode("utf-8", "backslashreplace")


def entry_errors(request: SubmitInvocation) -> list[FieldError]:
    """Errors in the names and values of headers and attributes."""
    errors = []
    for name, value in request.headers.items():
        if not name or not _TOKEN_CHARACTERS.issuperset(name):
            errors.append(FieldError(f"headers[{name[:64]}]", "the name must be a valid name of an HTTP header"))
        if not _is_text(value):
            errors.append(FieldError(f"headers[{name[:64]}]", "must not have control characters, such as line breaks"))
    errors += [
        FieldError(f"attributes[{name[:64]}]", "the name must be 1 to 256 printable characters")
        for name in request.attributes
        if not name or len(name) > 256 or not _is_text(name)
    ]
    size = len(msgspec.json.encode([request.headers, request.attributes]))
    if size > MOST_HEADER_BYTES:
        errors.append(FieldError("headers", f"headers and attributes must have at most {MOST_HEADER_BYTES} bytes"))
    return errors


def content_type_of(header: str | None) -> str:
    """The content type of a body. InvalidRequest for one that cannot be passed on."""
    given = (header or "application/octet-stream").strip()
    if len(given) > LONGEST_CONTENT_TYPE or not _is_text(given):
        raise InvalidRequest.of([FieldError("Content-Type", f"must have at most {LONGEST_CONTENT_TYPE} characters")])
    return JSON if given.partition(";")[0].strip().lower() == JSON else given


def _is_text(value: str) -> bool:
    return all(character.isprintable() or character == "\t" for character in value)
