"""The contract with the user's framework: what is posted to it, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gpu_runtime.serverless.messages import VERSION, FailureClass, Mode

# 0 means that the framework did not set it.
Status = Annotated[int, Meta(ge=0, le=599)]


class FrameworkRequest(Struct, frozen=True, kw_only=True):
    """The body of POST invokePath. The payload is JSON, or base64 for any other content type."""

    version: str = VERSION
    invocationID: str
    serverlessRequestID: str
    workerName: str
    workerNamespace: str
    mode: Mode
    contentType: str
    headers: dict[str, str]
    attributes: dict[str, str]
    payload: Raw | UnsetType = UNSET
    payloadBase64: str | UnsetType = UNSET
    timeoutSeconds: float
    attempt: int


class FrameworkResponse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON answer. An error, or a status of 400 or more, is a failure whatever the HTTP status is."""

    statusCode: Status = 200
    contentType: str = ""
    headers: dict[str, str] | None = None
    body: Raw = Raw(b"null")
    error: str | None = None


class StreamLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of streamed output. The last line has the result or an error."""

    output: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: str | None = None
    statusCode: Status = 0


@dataclass(frozen=True)
class Answer:
    """What the framework gave back."""

    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"null"
    is_json: bool = True


NO_ANSWER = Answer(502, content_type="", body=b"", is_json=False)
"""In place of an answer that did not come, or made no sense."""


@dataclass(frozen=True)
class Failure:
    """Why a try failed, and whether another one may cure it."""

    kind: FailureClass
    error: str
    retryable: bool = True
    answer: Answer = NO_ANSWER
