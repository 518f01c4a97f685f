"""One request to a unit and its answer, streamed in both directions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from gpu_runtime.proxy.errors import UnitUnreachable
from gpu_runtime.proxy.headers import to_client, to_unit
from gpu_runtime.proxy.targets import Target

CONNECT_SECONDS = 5.0
OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # what the client did not say is not said


@dataclass(frozen=True)
class Passage:
    """A request on its way: who asked, under which prefix, for what, and where it goes."""

    request: web.BaseRequest
    target: Target
    prefix: str
    path: str
    query: str

    def url(self, scheme: str | None = None) -> URL:
        """Exactly the path that the client sent: what it means is for the unit to say."""
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
    """Connections to units. None is used twice: whatever a unit or a client does to the framing of one request, there
    is no other request on that connection to be reached by it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, limit=0, ssl=False),  # units bring certificates of their own
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=OURS,
        trust_env=False,
    )


async def forward(passage: Passage, client: aiohttp.ClientSession) -> web.StreamResponse:
    """Sends the request on and the answer back, each as it comes."""
    request = passage.request
    headers = passage.headers()
    if request.content_length is not None and request.can_read_body:
        headers["Content-Length"] = str(request.content_length)
    try:
        answer = await client.request(
            request.method,
            passage.url(),
            headers=headers,
            data=_body(request) if request.can_read_body else None,
            allow_redirects=False,
        )
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise UnitUnreachable(f"GPU unit at {passage.prefix} does not answer: {_reason(error)}") from error
    async with answer:
        return await _send_back(passage, answer)


async def _send_back(passage: Passage, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    request = passage.request
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=passage.answer_headers(answer))
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
    except (aiohttp.ClientError, TimeoutError):
        # Half of an answer must not look like a whole one.
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
    return "the connection ended before an answer came"
