"""The API process: its application, caches and background work."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

from aiohttp import web

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.config import ApiLimits, ConfigError, RuntimeApiSettings
from gpu_runtime.edge.names import is_loopback, own_names, split_address
from gpu_runtime.edge.open_files import room_for
from gpu_runtime.edge.runner import Runner
from gpu_runtime.edge.server import HttpServer
from gpu_runtime.http.app import application
from gpu_runtime.http.errors import malformed
from gpu_runtime.http.guard import Guard
from gpu_runtime.http.routes import ROUTES
from gpu_runtime.http.streams import STREAMS, Streams
from gpu_runtime.http.swagger import add_swagger
from gpu_runtime.http.tokens import TokenFileError, Tokens
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.manager import Manager
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.results.opening import open_reader
from gpu_runtime.service.invocations.serverless import ServerlessParts
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.services import build

# Enough for all parameters at their maximum length, percent-encoded.
LONGEST_LINE = 64 * 1024
# What a request with the largest payload may have beside it.
ENVELOPE_BYTES = 64 * 1024


class RuntimeApi:
    """Serves until `stop`. Then it accepts no new requests and finishes the running ones. Records keep what is left."""

    def __init__(self, client: Client, settings: RuntimeApiSettings) -> None:
        self._settings = settings
        self.manager = Manager(client)
        self.broker = Broker(settings.nats, "runtime-api") if settings.nats.servers else None
        self.results = open_reader(settings.results) if self.broker and settings.results else None
        self.services = build(client, self.manager, platform(settings), serverless=self._serverless())
        runner = Runner(
            self._application(guard(settings)),
            malformed,
            shutdown_timeout=settings.drainSeconds,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            stalled_seconds=settings.limits.stalledClientSeconds,
        )
        self.server = HttpServer(runner, settings.httpAddr, self.manager)

    async def run(self, stop: asyncio.Event) -> None:
        """Ends in order also when the broker refuses its user: only a new start reads the credentials again."""
        async with self.broker or nullcontext():
            watch = asyncio.create_task(self._stop_when_refused(stop))
            try:
                await self.server.run(stop, background=self.services.work, finish=self._finish)
            finally:
                watch.cancel()
                if self.results is not None:
                    await self.results.close()

    async def _stop_when_refused(self, stop: asyncio.Event) -> None:
        if self.broker is not None:
            await self.broker.lost.wait()
            stop.set()

    def _serverless(self) -> ServerlessParts | None:
        if self.broker is None:
            return None
        settings = self._settings
        return ServerlessParts(self.broker, self.results, streams=settings.streams, limits=settings.invocations)

    async def _finish(self) -> None:
        await self.services.after_reply.finish(self._settings.drainSeconds)

    def _application(self, admitted: Guard) -> web.Application:
        limits = self._settings.limits
        app = application(
            ROUTES,
            self.services,
            admitted,
            self.manager.metrics.registry,
            body_limit=limits.bodyBytes,
            most_in_flight=limits.requestsInFlight,
            request_seconds=limits.requestSeconds,
            large_body_limit=self._settings.invocations.payloadBytes + ENVELOPE_BYTES,
        )
        app[STREAMS] = streams = Streams(most_streams(limits))
        app.on_shutdown.append(streams.close)
        add_swagger(app)
        return app


def platform(settings: RuntimeApiSettings) -> Platform:
    """The settings for the use cases; ConfigError when a replay would wait longer than its request may take."""
    wait, limit = settings.operations.replayWaitSeconds, settings.limits.requestSeconds
    if wait >= limit:
        raise ConfigError(f"operations.replayWaitSeconds: {wait} must be less than limits.requestSeconds, {limit}")
    return Platform(
        system_namespace=settings.installNamespace,
        stock_namespace=settings.stockNamespace,
        instance_namespace=settings.instanceNamespace,
        allowed_namespaces=tuple(settings.allowedNamespaces),
        most_stock_units=settings.limits.stockUnits,
        largest_storage=Quantity.parse(settings.limits.storageSize),
        retention_seconds=settings.operations.retentionSeconds,
        abandoned_after_seconds=settings.operations.abandonedAfterSeconds,
        replay_seconds=settings.operations.replayWaitSeconds,
    )


def most_streams(limits: ApiLimits) -> int:
    """The number of streams that the limit of open files allows. A stream may need two connections: one to its client,
    one to the cluster."""
    room = room_for(2 * limits.streams + limits.requestsInFlight)
    return min(limits.streams, max(1, (room - limits.requestsInFlight) // 2))


def guard(settings: RuntimeApiSettings) -> Guard:
    """Builds the guard; ConfigError when other machines could call the API without a token and without `auth: none`."""
    host, _ = split_address(settings.httpAddr)
    tokens = None
    if settings.tokenFile is not None and settings.auth == "token":
        try:
            tokens = Tokens(Path(settings.tokenFile))
        except TokenFileError as error:
            raise ConfigError(f"tokenFile: {error}") from error
    local = is_loopback(host)
    if tokens is None and not local and settings.auth != "none":
        raise ConfigError(
            f"httpAddr: {settings.httpAddr} is reachable from other machines: set tokenFile, or `auth: none`"
        )
    if not local and not settings.allowedHosts:
        return Guard(None, tokens)
    return Guard(own_names(host, settings.allowedHosts), tokens)
