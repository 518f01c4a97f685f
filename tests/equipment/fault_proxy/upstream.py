"""The server's side: sends a request on as it came, and reads the answer."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from equipment.fault_proxy.passage import Answer, ConnectionLost, Passage, Reply
from equipment.fault_proxy.stream import WatchStream
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.kube.transport import CutResponse

# These speak of one connection or of the length of one body, and are made anew on each side (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Upstream:
    """A pool of connections to one API server."""

    def __init__(self, server: ApiServer, *, keep_reads: bool) -> None:
        self._url = server.url.rstrip("/")
        self._keep_reads = keep_reads
        trust = ssl.create_default_context(cafile=server.ca_file) if self._url.startswith("https") else False
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust, socket_factory=self._socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=CutResponse,  # or a connection says farewell for longer than the test's event loop lives
            max_line_size=1 << 16,
            max_field_size=1 << 16,
        )
        # aiohttp repeats a PUT or DELETE by itself when a pooled connection breaks: a write the history would not know.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Returns when every connection is closed.

        One that was being opened when its request was cancelled is not the session's yet. It would say farewell to the
        server for longer than the test's event loop lives.
        """
        await self._session.close()
        for each in self._open():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        await eventually(lambda: not self._open(), what="the proxy's connections to the server are closed")

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    def _open(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() != -1]

    async def send(self, passage: Passage) -> Answer:
        """The server's answer; ConnectionLost when there is none."""
        exchange, call = passage.exchange, passage.call
        exchange.sent = True
        try:
            response = await self._session.request(
                call.method,
                URL(self._url + passage.raw_path, encoded=True),
                headers=_request_headers(passage.headers),
                data=passage.body or None,
                allow_redirects=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            )
            if call.streaming and response.status == 200:
                exchange.status = response.status
                return WatchStream(call, exchange, response)
            body = await response.read()
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            raise ConnectionLost(f"no answer from {self._url}: {error!r}") from error
        reply = Reply(response.status, end_to_end(response.headers.items()), body, exchange)
        exchange.status = reply.status
        if call.mutating or self._keep_reads:
            exchange.response = reply.document()
        return reply


def end_to_end(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """The headers that are passed on."""
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in HOP_BY_HOP)


def _request_headers(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    passed = end_to_end(headers.items())
    # Bodies are read, rewritten and recorded here, so they must come as they are.
    passed["Accept-Encoding"] = "identity"
    return passed
