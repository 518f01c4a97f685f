"""The proxy process: its application and caches."""

from __future__ import annotations

import asyncio
import ipaddress

from aiohttp import web
from prometheus_client import Counter

from gpu_runtime.config import ConfigError, ProxySettings
from gpu_runtime.edge.names import is_loopback, own_names, split_address
from gpu_runtime.edge.runner import Runner
from gpu_runtime.edge.server import HttpServer
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.manager import Manager
from gpu_runtime.proxy.app import Routes, application
from gpu_runtime.proxy.cluster_views import ENDPOINT_SLICES, STORAGES, UNITS
from gpu_runtime.proxy.endpoints import Endpoints
from gpu_runtime.proxy.errors import malformed
from gpu_runtime.proxy.guard import Guard
from gpu_runtime.proxy.storages import StorageTargets
from gpu_runtime.proxy.targets import Targets


class Proxy:
    """Serves until `stop`; then it accepts no new requests and finishes the running ones."""

    def __init__(self, client: Client, settings: ProxySettings) -> None:
        admitted = guard(settings)
        self.manager = Manager(client)
        refused = [ipaddress.ip_network(cidr) for cidr in settings.refusedCIDRs]
        endpoints = Endpoints(self.manager.cache(Query(ENDPOINT_SLICES)), refused)
        routes = Routes(
            Targets(self.manager.cache(Query(UNITS)), endpoints),
            StorageTargets(self.manager.cache(Query(STORAGES)), endpoints),
        )
        answers = Counter("proxy_answers", "Answers by status.", ["status"], registry=self.manager.metrics.registry)
        app = application(routes, admitted, lambda status: answers.labels(str(status)).inc())
        self.server = HttpServer(runner_of(app, settings.drainSeconds), settings.httpAddr, self.manager)

    async def run(self, stop: asyncio.Event) -> None:
        await self.server.run(stop)


def runner_of(app: web.Application, drain_seconds: float) -> Runner:
    """The proxy's runner. It does not decompress bodies: the unit gets the client's Content-Encoding and length."""
    return Runner(app, malformed, handler_cancellation=True, shutdown_timeout=drain_seconds, auto_decompress=False)


def guard(settings: ProxySettings) -> Guard:
    """Builds the guard; ConfigError when other machines could reach units without `auth: none`."""
    host, _ = split_address(settings.httpAddr)
    if is_loopback(host):
        return Guard(own_names(host, settings.allowedHosts))
    if settings.auth != "none":
        raise ConfigError(
            f"httpAddr: {settings.httpAddr} is reachable from other machines, and the proxy does not authenticate: "
            "put an authenticating proxy in front of it, and set `auth: none`"
        )
    return Guard(frozenset(name.strip("[]").lower() for name in settings.allowedHosts) or None)
