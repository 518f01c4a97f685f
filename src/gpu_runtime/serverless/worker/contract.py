"""The contract with the user's framework: what is posted to it, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import UNSET, Raw, Struct, UnsetType

from gpu_runtime.serverless.messages import VERSION, FailureClass, Mode


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

    statusCode: int = 200
    contentType: str = ""
    headers: dict[str, str] | None = None
    body: Raw = Raw(b"null")
    error: str | None = None


class StreamLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of streamed output. The last line has the result or an error."""

    output: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: str | None = None
    statusCode: int = 0


@dataclass(frozen=True)
class Answer:
    """What the framework gave back."""

    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"null"
    is_json: bool = True


@dataclass(frozen=True)
class Failure:
    """Why a try failed, and whether another one may cure it."""

    kind: FailureClass
    error: str
    retryable: bool = True
    answer: Answer = field(default_factory=lambda: Answer(502, content_type="", body=b"", is_json=False))
