"""A typed route: one declaration that validates the request, wraps the response and documents both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, TransferEncodingError

from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.validation import FieldError, validate
from gpu_runtime.http.deadline import deadline
from gpu_runtime.http.headers import check_origin, single
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.service.services import Services

B = TypeVar("B", bound=msgspec.Struct)
Q = TypeVar("Q", bound=msgspec.Struct)
P = TypeVar("P", bound=msgspec.Struct)
Method = Literal["GET", "POST", "PUT", "DELETE"]

JSON = "application/json"
ENCODINGS = frozenset({"identity", "gzip", "deflate"})  # of request bodies
BODY_SECONDS = 30.0
SERVICES: web.AppKey[Services] = web.AppKey("services", Services)
LARGE_BODY_LIMIT: web.AppKey[int] = web.AppKey("large_body_limit", int)
OWNER: web.RequestKey[str] = web.RequestKey("owner", str)
"""The owner of the request's token; absent when tokens are not required."""
OPERATION_ID: web.RequestKey[str] = web.RequestKey("operation_id", str)
"""The operationID in the request's body, for the audit line."""


class Nothing(msgspec.Struct, frozen=True):
    """No parameters, or no body."""


@dataclass(frozen=True)
class Call(Generic[B, Q, P]):
    """A validated request."""

    request: web.Request
    path: P
    query: Q
    body: B
    sent: Mapping[str, Any] = field(default_factory=dict)  # the body as the client sent it
    raw: bytes = b""  # the bytes of the body

    @property
    def owner(self) -> str:
        owner: str = self.request.get(OWNER, "")
        return owner

    @property
    def services(self) -> Services:
        return self.request.app[SERVICES]


@dataclass(frozen=True)
class Reply:
    """The content of the response envelope; `token` is for the next page of a list."""

    data: Any = None
    status: int = 200
    token: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> web.Response:
        if self.status == 204:
            return web.Response(status=204, headers=self.headers)
        envelope = {"data": self.data, "continue": self.token} if self.token else {"data": self.data}
        body = msgspec.json.encode(envelope)
        return web.Response(body=body, status=self.status, content_type=JSON, headers=self.headers)


@dataclass(frozen=True)
class Answer:
    """A documented success: its data type, or the media type if it is not JSON."""

    status: int
    description: str
    data: Any = None
    paged: bool = False
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None  # of a media type other than JSON


Handler = Callable[[Call[B, Q, P]], Awaitable[Reply | web.StreamResponse]]


@dataclass(frozen=True)
class Route(Generic[B, Q, P]):
    """One method on one path."""

    method: Method
    path: str
    summary: str
    tag: str
    handler: Handler[B, Q, P]
    answers: tuple[Answer, ...]
    errors: tuple[int, ...] = ()
    body: type[B] = Nothing  # type: ignore[assignment]
    query: type[Q] = Nothing  # type: ignore[assignment]
    parameters: type[P] = Nothing  # type: ignore[assignment]
    description: str = ""
    example: Mapping[str, Any] | None = None
    partial: bool = False  # the body contains only the fields to change
    open: bool = False  # needs no token
    large: bool = False  # the body may be as large as a payload
    described_by: str = ""  # a header that may hold what is otherwise the body, so that the body is something else

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Validates the request, calls the handler, wraps its result."""
        path = _parameters(self.parameters, request.match_info, "path")
        query = _parameters(self.query, _single(request), "query")
        raw = await self._raw(request)
        sent = self._sent(request, raw)
        body = parse(self.body, sent, partial=self.partial) if self.body is not Nothing else self.body()
        async with deadline(request):
            reply = await self.handler(Call(request, path, query, body, sent, raw))
        return reply.response() if isinstance(reply, Reply) else reply

    async def _raw(self, request: web.Request) -> bytes:
        """The bytes of the body, after the checks that its headers allow."""
        if self.body is Nothing:
            if self.method == "POST":
                check_origin(request)
            return b""
        if self._is_described(request):
            # A browser sends no header of this name for a page of another site, whatever the content type.
            check_origin(request)
        elif request.content_type != JSON:
            # Require JSON: a page of another site can make a browser post forms and text to loopback, but not JSON.
            described = f", or describe another body in the header {self.described_by}" if self.described_by else ""
            raise web.HTTPUnsupportedMediaType(text=f"send the body as {JSON}{described}")
        if request.headers.get("Content-Encoding", "identity").lower() not in ENCODINGS:
            raise web.HTTPUnsupportedMediaType(text="send the body uncompressed, or as gzip or deflate")
        limited = request.clone(client_max_size=request.app[LARGE_BODY_LIMIT]) if self.large else request
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await limited.read()
        except (web.RequestPayloadError, ContentEncodingError, TransferEncodingError) as error:
            raise InvalidRequest("the body does not match its Content-Encoding header") from error
        except TimeoutError as error:
            raise InvalidRequest(f"the body did not arrive within {BODY_SECONDS:.0f} s") from error

    def _is_described(self, request: web.Request) -> bool:
        return bool(self.described_by) and self.described_by in request.headers

    def _sent(self, request: web.Request, raw: bytes) -> Mapping[str, Any]:
        if self.body is Nothing:
            return {}
        if self._is_described(request):
            sent = decoded(single(request, self.described_by) or "", f"the header {self.described_by}")
        else:
            sent = decoded(raw, "the body")
        if isinstance(named := sent.get("operationID"), str):
            request[OPERATION_ID] = named[:128]
        return sent


def decoded(text: bytes | str, what: str) -> dict[str, Any]:
    """The JSON object; InvalidRequest if it is none."""
    value = decoded_json(text, what)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} must be a JSON object")
    return value


def decoded_json(text: bytes | str, what: str) -> Any:
    try:
        return _with_whole_numbers(msgspec.json.decode(text))
    except (msgspec.MsgspecError, UnicodeEncodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"{what} is not valid JSON: {error}") from error


def _with_whole_numbers(value: Any) -> Any:
    """Turns 2.0 into 2: in JSON they are the same number, and some clients encode integers as 2.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _with_whole_numbers(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(entry) for entry in value]
    return value


AnyRoute = Route[Any, Any, Any]
_INTEGER = re.compile("-?[0-9]{1,18}")


def _single(request: web.Request) -> dict[str, str]:
    repeated = [name for name in request.query if len(request.query.getall(name)) > 1]
    if repeated:
        raise InvalidRequest.of([FieldError(name, "may be given once") for name in dict.fromkeys(repeated)])
    return dict(request.query)


def _parameters(type_: type[Q], given: Mapping[str, str], where: str) -> Q:
    """The parameters as their Struct; InvalidRequest names unknown and invalid ones."""
    node = describe(type_)
    values = {
        name: _value(node.fields[name].node, text) if name in node.fields else text for name, text in given.items()
    }
    found = validate(type_, values)
    if found:
        raise InvalidRequest.of([FieldError(error.field, f"{error.message} ({where} parameter)") for error in found])
    return msgspec.convert(values, type_)


def _value(node: Node, text: str) -> object:
    """The text as a value of the expected type. Invalid values pass through unchanged and fail validation later."""
    if node.type == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if node.type == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text, text)
    return text
