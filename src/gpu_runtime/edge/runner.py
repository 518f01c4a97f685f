"""Runs an application and answers malformed HTTP in the application's own envelope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError

from gpu_runtime.errors import ConfigError

Refuse = Callable[[int, str], web.Response]
"""The envelope of a refusal with this status and message."""
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CONTINUE = "100-continue"
_log = structlog.get_logger("http")


class Runner(web.AppRunner):
    """An AppRunner that answers malformed requests with `refuse`, so that every answer has the application's format.

    aiohttp itself answers a request that it cannot parse, or one with an unknown Expect header, with its own text, and
    logs a stack trace although the mistake is the client's.
    """

    def __init__(
        self,
        app: web.Application,
        refuse: Refuse,
        *,
        shutdown_timeout: float,
        handler_cancellation: bool = False,
        **protocol_options: Any,
    ) -> None:
        super().__init__(app, shutdown_timeout=shutdown_timeout, handler_cancellation=handler_cancellation)
        self._refuse = refuse
        self._protocol_options = protocol_options

    async def listen(self, host: str, port: int) -> int:
        """Listens on the address and returns its port; ConfigError when that fails."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            await web.TCPSite(self, host or None, port).start()
        except OSError as error:
            raise ConfigError(f"cannot listen on {where}: {error.strerror}") from error
        except UnicodeError as error:  # such as an empty part between two dots
            raise ConfigError(f"cannot listen on {where}: {host} is not a host name") from error
        return int(self.addresses[0][1])

    async def cleanup(self) -> None:
        await stop_accepting(self)
        await super().cleanup()

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            _answering_all(made.request_handler, self._refuse),
            self._refuse,
            self._protocol_options,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
        )


async def stop_accepting(runner: web.BaseRunner) -> None:
    """Accepts no more connections, and lets those begin that were accepted just now.

    asyncio forgets a connection that was accepted, but has not begun, when its server is closed: nobody closes it, and
    its client waits until the process ends.
    """
    loop = asyncio.get_running_loop()
    for site in runner.sites:
        server = site._server  # noqa: SLF001  there is no other way to its sockets
        if isinstance(server, asyncio.Server):
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)


class _Server(web.Server):
    def __init__(self, handler: Handle, refuse: Refuse, protocol_options: Mapping[str, Any], **options: Any) -> None:
        super().__init__(handler, **options)
        self._refuse = refuse
        self._protocol_options = protocol_options

    def __call__(self) -> web.RequestHandler:
        loop = asyncio.get_running_loop()
        return _Protocol(self, refuse=self._refuse, loop=loop, access_log=None, **self._protocol_options)


class _Protocol(web.RequestHandler):
    __slots__ = ("_refuse", "_stalled", "_stalled_seconds")

    def __init__(
        self, manager: web.Server, *, refuse: Refuse, stalled_seconds: float | None = None, **options: Any
    ) -> None:
        super().__init__(manager, **options)
        self._refuse = refuse
        self._stalled_seconds = stalled_seconds
        self._stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """The client reads more slowly than we write. A client that stops reading must not hold buffers for ever."""
        super().pause_writing()
        if self.transport is not None:
            self._watch(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self, transport: asyncio.Transport) -> None:
        if self._stalled_seconds is not None:
            unread, loop = transport.get_write_buffer_size(), asyncio.get_running_loop()
            self._stalled = loop.call_later(self._stalled_seconds, self._look, transport, unread)

    def _unwatch(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _look(self, transport: asyncio.Transport, unread: int) -> None:
        """Closes the connection unless the client has read something since the last check."""
        if transport.get_write_buffer_size() < unread:
            self._watch(transport)
            return
        _log.info("cut off a client that stopped reading", peer=str(transport.get_extra_info("peername")))
        transport.abort()

    def log_exception(self, *args: Any, exc_info: BaseException | None = None, **_: Any) -> None:
        """Logs a trace for defects in our code only: a body that cannot be decoded is the client's mistake."""
        if isinstance(exc_info, web.RequestPayloadError | ConnectionError):
            _log.info("malformed request", problem=_one_line(str(exc_info)))
        else:
            _log.exception("defect", error=str(args[0] % args[1:]) if args else "", exc_info=exc_info)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a malformed request. Exceptions of handlers are left to aiohttp, which logs their trace."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        said = _one_line(message or "")
        _log.info("malformed request", remote=request.remote, problem=said)
        if isinstance(exc, ContentEncodingError):
            answer = self._refuse(415, "unknown Content-Encoding: send the body uncompressed, or as gzip or deflate")
        else:
            answer = self._refuse(status, f"the request is malformed: {said}")
        answer.force_close()
        return answer


def _answering_all(handle: Handle, refuse: Refuse) -> Handle:
    """`handle`, but an Expect header that aiohttp would refuse before any middleware runs is answered by `refuse`.

    aiohttp quotes the header in its refusal, and fails when the header's bytes are no text.
    """

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() in ("", CONTINUE):
            return await handle(request)
        response = refuse(400, "Expect: only 100-continue is supported")
        response.force_close()  # the client may or may not send its body now, so the connection cannot be reused
        return response

    return answer


def _one_line(message: str) -> str:
    """The first line of aiohttp's message, without the quoted request, which may hold a secret or bytes."""
    first = message.splitlines()[0] if message else "malformed"
    return first.partition(": b'")[0].partition(": bytearray")[0].rstrip(": ")[:200]
