"""The connection to the broker. It is made in the background and comes back by itself."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog
from nats.aio.msg import Msg
from nats.errors import Error, NoRespondersError
from nats.js import JetStreamContext

from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.broker.client import ReconnectingClient
from gpu_runtime.serverless.broker.errors import NoAnswer, NotConfigured
from gpu_runtime.serverless.credentials.creds import InvalidCredentials, UserCredentials, inbox_prefix

ANSWER_SECONDS = 5.0
RECONNECT_SECONDS = 0.5
CLOSE_SECONDS = 5.0
PENDING_BYTES = 8 * 1024 * 1024
AUTHORIZATION_VIOLATION = "Authorization Violation"


class Broker:
    """One connection, used as `async with Broker(...)`. Entering does not wait for the broker: `connected` does."""

    def __init__(self, settings: NatsSettings, name: str) -> None:
        self._settings, self._name = settings, name
        self.nats = ReconnectingClient()
        self.problem = "not connected yet"
        """Why there is no connection now; empty when there is one."""
        self.lost = asyncio.Event()
        """Set when the broker refuses the user of a lost connection: the process must end, and start again with the
        credentials that its file has then."""
        self._was_up = False
        self._up = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._log = structlog.get_logger("broker")

    @property
    def stream(self) -> JetStreamContext:
        return self.nats.jetstream(timeout=ANSWER_SECONDS)

    async def __aenter__(self) -> Self:
        options = connect_options(self._settings)
        self._connecting = asyncio.create_task(self._connect(options))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        with suppress(Error, TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.nats.close()

    async def connected(self) -> None:
        """Returns when there is a connection."""
        await self._up.wait()

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Msg:
        """The answer. NoAnswer when there is none in time, NotConfigured when nobody listens."""
        if not self._up.is_set():
            raise NoAnswer(f"no connection to the broker: {self.problem}")
        try:
            return await self.nats.request(
                subject, payload, timeout=seconds, headers=dict(headers) if headers is not None else None
            )
        except NoRespondersError as error:
            raise NotConfigured(f"nothing at the broker answers to {subject}") from error
        except (Error, TimeoutError, OSError) as error:
            raise NoAnswer(f"no answer of the broker to {subject}: {type(error).__name__}") from error

    async def _connect(self, options: dict[str, Any]) -> None:
        while True:
            try:
                await self.nats.connect(
                    servers=self._settings.servers,
                    name=self._name,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,  # type: ignore[arg-type] # fractions work, too
                    ping_interval=10,
                    max_outstanding_pings=2,
                    pending_size=PENDING_BYTES,
                    error_cb=self._failed,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._connected,
                    closed_cb=self._closed,
                    **options,
                )
            except (Error, OSError, TimeoutError) as error:
                await self._failed(error)
                await asyncio.sleep(RECONNECT_SECONDS)
                self.nats = ReconnectingClient()
            else:
                await self._connected()
                return

    async def _connected(self) -> None:
        self.problem = ""
        self._was_up = True
        self._up.set()
        self._log.info(
            "connected to the broker", server=self.nats.connected_url.netloc if self.nats.connected_url else ""
        )

    async def _disconnected(self) -> None:
        self._up.clear()
        self.problem = self.problem or "the connection was lost"

    async def _failed(self, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if said != self.problem:
            self._log.warning("trouble with the broker", problem=said)
        if not self._up.is_set():
            self.problem = said
        if self._was_up and AUTHORIZATION_VIOLATION in said:
            self.lost.set()

    async def _closed(self) -> None:
        self._up.clear()
        self.lost.set()


def connect_options(settings: NatsSettings) -> dict[str, Any]:
    """Credentials and TLS as nats-py takes them; ConfigError names the file that cannot be used."""
    options: dict[str, Any] = {}
    if settings.tls is not None:
        tls = settings.tls
        try:
            context = ssl.create_default_context(cafile=tls.caFile)
            if tls.certFile is not None:
                context.load_cert_chain(tls.certFile, tls.keyFile)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"nats.tls: {error}") from error
        options["tls"] = context
    if settings.credentialsFile is not None:
        options |= _credentials(settings.credentialsFile).connect_options()
    elif settings.user is not None:
        options["user"] = settings.user
        options["password"] = _read(settings.passwordFile) if settings.passwordFile is not None else ""
        options["inbox_prefix"] = inbox_prefix(settings.user)
    return options


def _credentials(path: str) -> UserCredentials:
    try:
        return UserCredentials.parse(_read(path))
    except InvalidCredentials as error:
        raise ConfigError(f"nats.credentialsFile: {path}: {error}") from error


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ConfigError(f"nats: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"nats: {path} is not text") from None
