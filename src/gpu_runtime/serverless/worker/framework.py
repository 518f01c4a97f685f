"""The client of the user's framework: HTTP over a unix socket, one connection a call."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from io import BytesIO
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from gpu_runtime.config.worker import FrameworkSettings
from gpu_runtime.serverless.worker.answers import from_last_line, interpret, interpret_line, is_stream
from gpu_runtime.serverless.worker.contract import Answer, Failure

HEALTH_SECONDS = 2.0
# An error's text may be as long as its body; only its beginning is read.
ERROR_BYTES = 64 * 1024

Emit = Callable[[bytes], None]
"""Takes a piece of partial output, as JSON. It does not wait."""


class NotReached(Exception):
    """Nobody listens on the socket: the framework has seen nothing of the call."""


class SlowHealth(Exception):
    """The framework listens but does not answer in time. While it runs a call, that is no problem."""


class Framework:
    """Calls the framework, used as `async with Framework(...)`."""

    def __init__(self, settings: FrameworkSettings, max_result_bytes: int) -> None:
        self._settings, self._max_bytes = settings, max_result_bytes
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A connection that is used again may be closed by the framework at the moment of the next call. Then nobody
        # knows whether the call was run. So each call has its own.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(self._settings.socketPath, force_close=True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def health(self) -> str:
        """Why the framework cannot take calls; empty when it can. SlowHealth when it does not answer in time."""
        assert self._session is not None
        path = self._settings.healthPath
        try:
            async with asyncio.timeout(HEALTH_SECONDS), self._session.get(f"http://framework{path}") as response:
                if response.status == 200:
                    return ""
                return f"the framework answers {response.status} to GET {path}"
        except TimeoutError as error:
            raise SlowHealth(f"the framework does not answer GET {path} within {HEALTH_SECONDS:g} s") from error
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno == errno.EAGAIN:
                raise SlowHealth(self._not_reached(error.os_error)) from error
            return self._not_reached(error.os_error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"the framework does not answer GET {path} with HTTP: {_words(error)}"

    async def invoke(self, request: bytes, seconds: float, emit: Emit) -> Answer | Failure:
        """The outcome of one call. NotReached when the framework was not called at all."""
        assert self._session is not None
        url = f"http://framework{self._settings.invokePath}"
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    url, data=BytesIO(request), headers={"Content-Type": "application/json"}, allow_redirects=False
                ) as response,
            ):
                return await self._read(response, emit)
        except TimeoutError:
            return Failure(
                "framework_timeout", f"the framework did not answer within {seconds:.6g} s", answer=TIMED_OUT
            )
        except aiohttp.ClientConnectorError as error:
            raise NotReached(self._not_reached(error.os_error)) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError) as error:
            return Failure(
                "framework_error", f"the framework closed the connection before it had answered: {_words(error)}"
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Failure("framework_answer", f"the framework did not answer with HTTP: {_words(error)}")

    async def _read(self, response: aiohttp.ClientResponse, emit: Emit) -> Answer | Failure:
        content_type = response.headers.get("Content-Type", "")
        if 200 <= response.status < 300 and is_stream(content_type):
            return await self._read_stream(response, emit)
        limit = self._max_bytes if response.status < 400 else ERROR_BYTES
        body = bytearray()
        async for data in response.content.iter_any():
            body += data
            if len(body) > limit:
                if response.status >= 400:
                    break
                return self._too_large()
        return interpret(response.status, content_type, bytes(body))

    async def _read_stream(self, response: aiohttp.ClientResponse, emit: Emit) -> Answer | Failure:
        """Emits the output line by line, up to the line with the result or an error."""
        rest = b""
        async for data in response.content.iter_any():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if (outcome := _take_line(line, emit)) is not None:
                    return outcome
            if len(rest) > self._max_bytes:
                return self._too_large()
        if (outcome := _take_line(rest, emit)) is not None:
            return outcome
        return Failure("framework_answer", 'the framework\'s stream ended without a line {"result": ...}')

    def _too_large(self) -> Failure:
        return Failure(
            "framework_answer",
            f"the framework's result is larger than {self._max_bytes} bytes, the limit (maxResultBytes)",
            retryable=False,
        )

    def _not_reached(self, error: OSError) -> str:
        path = self._settings.socketPath
        match error.errno:
            case errno.ENOENT:
                return f"waiting for the framework: there is no socket {path} yet"
            case errno.ECONNREFUSED:
                return f"waiting for the framework: nobody listens on {path}"
            case errno.EACCES | errno.EPERM:
                return f"permission denied for {path}: make it writable for other users (chmod 0666)"
            case errno.EAGAIN:
                return f"the framework has not accepted earlier connections to {path} yet"
            case errno.ENOTSOCK | errno.EPROTOTYPE:
                return f"{path} is not a stream socket"
        return f"cannot connect to {path}: {error.strerror or error}"


TIMED_OUT = Answer(504, content_type="", body=b"", is_json=False)


def _take_line(line: bytes, emit: Emit) -> Answer | Failure | None:
    """Emits a line of output; the outcome if it is the last line, or not a line of the contract."""
    try:
        said = interpret_line(line)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError) as error:
        return Failure("framework_answer", f"a line of the framework's stream is not of the contract: {error}")
    if said is None:
        return None
    if not isinstance(said.output, msgspec.UnsetType):
        emit(bytes(said.output))
        return None
    if isinstance(said.result, msgspec.UnsetType) and said.error is None and said.statusCode < 400:
        return Failure("framework_answer", "a line of the framework's stream has neither output nor result nor error")
    return from_last_line(said)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
