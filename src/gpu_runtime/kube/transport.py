"""HTTP connections to one API server, with credentials, and errors that a person can act on."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import aiohttp
from yarl import URL

from gpu_runtime.kube.config import ClusterConfig
from gpu_runtime.kube.errors import ApiError, NoConnection, Unauthorized, Unreachable, error_from_response

CONNECT_SECONDS = 10.0  # until a connection is free, and until a new one is established, TLS included
OPEN_SECONDS = 30.0  # until a stream begins
# A peer that vanished without closing (a lost node, a firewall that dropped the flow) is noticed in about 30 s.
KEEPALIVE = (
    ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
    if hasattr(socket, "TCP_KEEPIDLE")
    else ()
)
# What aiohttp raises when the answer is missing or incomplete.
FAILURES = (TimeoutError, aiohttp.ClientError, OSError)
REPEATED_BY_AIOHTTP = ("PUT", "DELETE")  # of the methods that write: HTTP calls these idempotent


class Transport:
    """Sends requests and turns every failure into one of kube.errors. Never repeats a write that may have succeeded.

    Requests share at most `connections` connections. Each stream opens one of its own, and the number of streams has no
    limit here: streams that used up the shared connections would block every request of the process.
    """

    def __init__(self, config: ClusterConfig, *, user_agent: str, connections: int) -> None:
        self.config = config
        self._user_agent = user_agent
        self._connections = connections
        self._free = asyncio.Semaphore(connections)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Transport:
        # No limit here, because of the streams. Requests wait for `_free` instead; NoConnection if that takes long.
        connector = aiohttp.TCPConnector(limit=0, ssl=self.config.ssl or True, socket_factory=_socket)
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, response_class=CutResponse)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(
        self,
        method: str,
        path: str,
        *,
        subject: str,
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Sends one request and waits for its whole answer."""
        await self._wait_for_connection(subject)
        try:
            response = await self._open(method, path, subject, timeout, data, parameters, content_type)
            async with response:
                return await response.read()
        except FAILURES as error:
            raise self._unreachable(subject, error) from error
        finally:
            self._free.release()

    async def _wait_for_connection(self, subject: str) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            busy = f"all {self._connections} connections to {self.config.server} were busy for {CONNECT_SECONDS:g} s"
            raise NoConnection(f"{subject}: not sent: {busy}") from None

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        subject: str,
        silence: float | None,
        begins_within: float | None,
        parameters: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a GET, to be read as it arrives.

        Unreachable when it has not begun after `begins_within` seconds, or brings no byte for `silence` seconds.
        """
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence)
        try:
            async with asyncio.timeout(begins_within):
                response = await self._open("GET", path, subject, limits, parameters=parameters)
            try:
                yield response
            finally:
                response.close()
        except FAILURES as error:
            raise self._unreachable(subject, error) from error

    async def _open(
        self,
        method: str,
        path: str,
        subject: str,
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        """An answer whose status is good and whose body has not been read."""
        if self._session is None:
            raise RuntimeError("the client is closed: use it inside `async with`")
        headers = {"Content-Type": content_type} if data is not None else {}
        # Resource.path has quoted what needs it; parsing the address again would cost more than all else here.
        url = URL(self.config.server + path, encoded=True)
        if parameters:
            url = url.with_query(parameters)
        for last in (False, True):
            if token := await self.config.token.token():
                headers["Authorization"] = f"Bearer {token}"
            response = await self._session.request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=timeout,
                middlewares=(_Once(),) if method in REPEATED_BY_AIOHTTP else (),
                server_hostname=self.config.tls_server_name,
                allow_redirects=False,
            )
            if response.status < 300:
                return response
            async with response:
                error = error_from_response(
                    response.status, await response.read(), response.headers.get("Retry-After"), subject=subject
                )
            # The token may have been rotated: retry once with a new one.
            if last or not isinstance(error, Unauthorized) or not self.config.token.expire():
                break
        raise self._explained(error)

    def _unreachable(self, subject: str, error: Exception) -> Unreachable:
        return Unreachable(f"{subject}: {_connection_problem(error, self.config)}")

    def _explained(self, error: ApiError) -> ApiError:
        if isinstance(error, Unauthorized):
            who = f"{self.config.server} does not accept the credentials of {self.config.source}"
            error.args = (f"{error.message}: {who}: they may have expired; log in again or renew the token",)
        return error


class CutResponse(aiohttp.ClientResponse):
    """Aborts its connection when it is closed before the end of the body.

    A TLS shutdown would wait 30 s for a server that may be gone, even after the client is closed.
    """

    def close(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()


class _Once:
    """Keeps aiohttp from sending a PUT or DELETE again by itself when a kept connection breaks.

    The second request would fail with Conflict or NotFound although the first one succeeded.
    """

    def __init__(self) -> None:
        self._sent = False

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._sent:
            raise aiohttp.ServerDisconnectedError
        self._sent = True
        return await handler(request)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def _connection_problem(error: BaseException, config: ClusterConfig) -> str:
    server = config.server
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return (
                f"the certificate of {server} is not signed by the authority in {config.source}: "
                f"{error.certificate_error.args[-1] if error.certificate_error.args else error}"
            )
        case aiohttp.ClientConnectorDNSError():
            return f"no such host: {server} (from {config.source})"
        case aiohttp.ClientConnectorError() if error.os_error.errno in (errno.EMFILE, errno.ENFILE):
            return f"cannot open a connection to {server}: too many open files; raise the limit (ulimit -n)"
        case aiohttp.ClientConnectorError():
            reason = error.os_error.strerror or error.os_error
            return f"cannot reach {server}: {reason}; is the cluster up, and is {config.source} the right one?"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {server} within {CONNECT_SECONDS:g} s"
        case TimeoutError():
            return f"no answer from {server} in time"
        case _:
            return f"the connection to {server} broke: {str(error) or type(error).__name__}"
