"""What an answer of the framework means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gpu_runtime.serverless.worker.contract import Answer, Failure, FrameworkResponse, StreamLine

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"

# A result message must fit into one message of the broker together with a body of 512 KiB.
LONGEST_ERROR = 4000
LONGEST_CONTENT_TYPE = 200
HEADERS_BYTES = 16 * 1024

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_response = msgspec.json.Decoder(FrameworkResponse)
_line = msgspec.json.Decoder(StreamLine)


def interpret(status: int, content_type: str, body: bytes) -> Answer | Failure:
    """The meaning of a complete HTTP answer: a result, or a failure."""
    kind = media_type(content_type)
    if 200 <= status < 300:
        if kind == JSON:
            return _from_json(body)
        if not kind and not body:
            return Answer(status)
        return Answer(
            status, content_type[:LONGEST_CONTENT_TYPE] or "application/octet-stream", {}, body, is_json=False
        )
    if status >= 400:
        return _from_status(status, kind, body)
    return Failure("framework_answer", f"the framework answered HTTP {status}, which is neither a result nor an error")


def interpret_line(line: bytes) -> StreamLine | None:
    """A line of streamed output; None for an empty line or one of an event stream that carries no data."""
    if line.startswith((b":", b"event:", b"id:", b"retry:")):
        return None
    data = line.removeprefix(b"data:").strip()
    if not data:
        return None
    data.decode()  # Raw values are not checked by the decoder
    return _line.decode(data)


def from_last_line(line: StreamLine) -> Answer | Failure:
    """The meaning of a line that has the result or an error."""
    if line.error is not None or line.statusCode >= 400:
        return _failed(line.statusCode, line.error or "", Answer(line.statusCode or 500, content_type="", body=b""))
    assert not isinstance(line.result, msgspec.UnsetType)
    return Answer(line.statusCode or 200, body=bytes(line.result))


def is_stream(content_type: str) -> bool:
    return media_type(content_type) in (NDJSON, EVENT_STREAM)


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _from_json(body: bytes) -> Answer | Failure:
    if not body.strip():
        return Answer()
    try:
        body.decode()  # Raw values are not checked by the decoder
        said = _response.decode(body)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError) as error:
        return Failure(
            "framework_answer",
            "the framework's JSON is not an answer with statusCode, contentType, headers, body or error: "
            + _quoted(str(error)),
        )
    status = said.statusCode or 200
    headers = said.headers or {}
    if problem := _wrong_headers(headers, said.contentType):
        return Failure("framework_answer", problem, retryable=False)
    answer = Answer(status, said.contentType[:LONGEST_CONTENT_TYPE] or JSON, headers, bytes(said.body))
    if said.error or status >= 400:
        return _failed(status, said.error or "", answer)
    return answer


def _from_status(status: int, kind: str, body: bytes) -> Failure:
    """An HTTP error. Its words are those of a JSON answer, or the beginning of any other body."""
    if kind == JSON and isinstance(found := _from_json(body), Failure) and found.kind == "framework_error":
        return _failed(status, found.error, found.answer)
    text = _quoted(body[:LONGEST_ERROR].decode(errors="replace").strip())
    return _failed(status, f"HTTP {status}" + (f": {text}" if text else ""), Answer(status, content_type="", body=b""))


def _failed(status: int, error: str, answer: Answer) -> Failure:
    """A failure that the framework itself reports. 4xx is the caller's fault: another try would fail, too."""
    words = _quoted(error) or f"the framework answered with status {status}"
    return Failure("framework_error", words, not 400 <= status < 500, answer)


def _wrong_headers(headers: Mapping[str, str], content_type: str) -> str:
    """Why the headers cannot be passed on to the caller; empty when they can."""
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    if size > HEADERS_BYTES:
        return f"the headers of the framework's answer have {size} bytes; the limit is {HEADERS_BYTES}"
    for name, value in (*headers.items(), ("contentType", content_type)):
        if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
            return f"the framework's answer has a header that is not one of HTTP: {_quoted(repr(name))}"
    return ""


def _quoted(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else text[:LONGEST_ERROR] + "..."
