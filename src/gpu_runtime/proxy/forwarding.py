"""Forwards one request to a unit or an accessor and streams both bodies."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from gpu_runtime.proxy.headers import to_client, to_unit
from gpu_runtime.proxy.targets import Target

CONNECT_SECONDS = 5.0
OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # aiohttp must not add these headers


@dataclass(frozen=True)
class ForwardedRequest:
    """A request that is forwarded: the client's request, its prefix and path, and the target."""

    request: web.BaseRequest
    target: Target
    prefix: str
    path: str
    query: str

    def url(self, scheme: str | None = None) -> URL:
        """The raw path that the client sent: only the unit interprets it."""
        return URL.build(
            scheme=scheme or self.target.scheme,
            host=self.target.address,
            port=self.target.port,
            path=self.path,
            query_string=self.query,
            encoded=True,
        )

    def headers(self) -> CIMultiDict[str]:
        return to_unit(
            self.request.headers,
            host=self.target.host,
            client=self.request.remote or "",
            public_host=self.request.host,
            prefix=self.prefix,
        )

    def answer_headers(self, response: aiohttp.ClientResponse) -> CIMultiDict[str]:
        own = (f"{self.target.scheme}://{self.target.host}", str(self.url().origin()))
        return to_client(response.headers, prefix=self.prefix, own=own)


def session() -> aiohttp.ClientSession:
    """Connections to units. A connection is never reused: broken framing of one request (request smuggling) cannot
    reach another request."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=0, ssl=False),  # units have self-signed certificates
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=OURS,
        trust_env=False,
    )


async def forward(forwarded: ForwardedRequest, client: aiohttp.ClientSession) -> web.StreamResponse:
    """Forwards the request and streams the response back."""
    request = forwarded.request
    headers = forwarded.headers()
    if request.content_length is not None and request.can_read_body:
        headers["Content-Length"] = str(request.content_length)
    try:
        answer = await client.request(
            request.method,
            forwarded.url(),
            headers=headers,
            data=_body(request) if request.can_read_body else None,
            allow_redirects=False,
        )
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        target = forwarded.target
        message = f"{target.what} at {forwarded.prefix} does not answer: {_reason(error)}"
        raise target.unreachable(message) from error
    async with answer:
        return await _send_back(forwarded, answer)


async def _send_back(forwarded: ForwardedRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    request = forwarded.request
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=forwarded.answer_headers(answer))
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
    except (aiohttp.ClientError, TimeoutError):
        # A truncated response must not look complete.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response


async def _body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    async for piece in request.content.iter_any():
        yield piece


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return os.strerror(error.os_error.errno) if error.os_error.errno else "no connection"
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    return "the connection ended before the response"
