"""Start, serve, drain, stop."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from prometheus_client import CollectorRegistry

from gpu_runtime.local.apiserver import certificates
from gpu_runtime.local.apiserver.admission import Chain
from gpu_runtime.local.apiserver.admission.plugins import standard_plugins
from gpu_runtime.local.apiserver.api import LARGEST_BODY, Api
from gpu_runtime.local.apiserver.auth import Authenticator
from gpu_runtime.local.apiserver.bootstrap import bootstrap
from gpu_runtime.local.apiserver.builtin import add_builtin_kinds
from gpu_runtime.local.apiserver.chores import Chores
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.custom.definitions import Definitions
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.local.apiserver.expiry import expire_events
from gpu_runtime.local.apiserver.health import Health, Lacks, lacks_nothing
from gpu_runtime.local.apiserver.journal import Journal
from gpu_runtime.local.apiserver.kinds import Registry
from gpu_runtime.local.apiserver.kubeconfig import ensure_token, write_kubeconfig
from gpu_runtime.local.apiserver.logs import LogSource
from gpu_runtime.local.apiserver.shells import ShellSource
from gpu_runtime.local.apiserver.store import KEEP_BYTES, KEEP_EVENTS, KEEP_SECONDS, Store, WriteFailed
from gpu_runtime.local.apiserver.usage import UsageSource

LONGEST_LINE = 1 << 18  # the command of an exec is part of the request's first line


@dataclass(frozen=True)
class Settings:
    data_dir: Path
    logs: LogSource
    port: int = 0
    keep_seconds: float = KEEP_SECONDS
    keep_events: int = KEEP_EVENTS
    keep_bytes: int = KEEP_BYTES
    shells: ShellSource | None = None
    usage: UsageSource | None = None
    lacks: Lacks = lacks_nothing
    """Names the other parts of the cluster that do not work yet. Until they do, `/readyz` fails and `/livez` is ok."""
    registry: CollectorRegistry | None = None
    """Metrics that `/metrics` shows beside the server's own."""


class ApiServer:
    """One embedded API server on one data directory. `async with ApiServer(settings) as server: ...`"""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chores = Chores()
        self.url = ""
        self.kubeconfig = settings.data_dir / "kubeconfig"

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns when the server answers requests and the kubeconfig is written."""
        folder = self._settings.data_dir
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot use data directory {folder}: {error.strerror}") from error
        journal = Journal(folder)
        try:
            await self._start_on(journal)
        except BaseException:
            journal.close()
            raise

    async def _start_on(self, journal: Journal) -> None:
        folder = self._settings.data_dir
        pems = certificates.ensure(folder / "pki")
        listener = _listen(self._settings.port)
        port = listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{port}"
        self.store = self._open_store(journal)
        registry = Registry()
        add_builtin_kinds(registry)
        environment = Environment()
        self.cluster = Cluster.assemble(
            self.store, registry, Chain(standard_plugins(environment)), environment, self._settings.logs
        )
        self.cluster.shells, self.cluster.usage = self._settings.shells, self._settings.usage
        Definitions(self.cluster).start()
        fresh = self.store.version <= 1
        bootstrap(self.cluster, port)
        await self._must_have_written()
        if fresh:
            # No client has seen the versions of the bootstrap. As on a real server, a watch from them is too old.
            self.store.compact(self.store.version)
        token = ensure_token(folder)
        health = Health(self._problems, self._settings.registry or CollectorRegistry())
        api = Api(self.cluster, Authenticator(token), f"127.0.0.1:{port}", health)
        server = web.Server(api.handle, request_factory=_request, handler_cancellation=True, max_line_size=LONGEST_LINE)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=5)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=_tls(pems)).start()
        every = max(0.1, self._settings.keep_seconds / 5)
        self._chores.start("compaction", every, self.store.compact_by_age)
        self._chores.start("expiry of events", every, partial(expire_events, self.cluster))
        write_kubeconfig(self.kubeconfig, self.url, pems, token)

    def _open_store(self, journal: Journal) -> Store:
        settings = self._settings
        return Store(journal, settings.keep_seconds, settings.keep_events, settings.keep_bytes)

    async def _must_have_written(self) -> None:
        try:
            await self.store.committed()
        except WriteFailed as error:
            raise StartError(f"cannot write to data directory {self._settings.data_dir}: {error}") from error

    def _problems(self) -> dict[str, str]:
        return {**self._settings.lacks(), **self.store.problems(), **self._chores.problems()}

    async def stop(self) -> None:
        """Lets running requests finish, ends watches, and closes the store."""
        await self._chores.stop()
        self.store.stop_watches()
        await self._runner.cleanup()
        await self.store.settled()
        self.store.close()


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """A request with the size limit of the real server."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY)


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise StartError(f"port {port} {why}") from error
    return listener


def _tls(pems: certificates.Certificates) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pems.server, pems.server_key)
        context.load_verify_locations(pems.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        raise StartError(
            f"cannot use certificate {pems.server}: {error}; delete {pems.ca.parent} to have new ones made"
        ) from error
    return context
