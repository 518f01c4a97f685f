"""One process of the proxy: caches, and the HTTP server beside them."""

from __future__ import annotations

import asyncio
import ipaddress

import structlog
from aiohttp import web
from prometheus_client import Counter

from gpu_runtime.config import ConfigError, ProxySettings
from gpu_runtime.edge.names import is_loopback, own_names, split_address
from gpu_runtime.edge.runner import Runner
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.manager import Manager
from gpu_runtime.proxy.app import application
from gpu_runtime.proxy.errors import malformed
from gpu_runtime.proxy.guard import Guard
from gpu_runtime.proxy.targets import Targets


class Proxy:
    """Serves until `stop`; then it takes no more requests and ends those that it has."""

    def __init__(self, client: Client, settings: ProxySettings) -> None:
        self.started = asyncio.Event()
        self.port = 0
        self._settings = settings
        self._host, self._wanted_port = split_address(settings.httpAddr)
        self._guard = guard(settings)
        self.manager = Manager(client, health=(settings.health.host, settings.health.port))
        refused = [ipaddress.ip_network(cidr) for cidr in settings.refusedCIDRs]
        self._targets = Targets.of(self.manager, refused)
        answers = Counter("proxy_answers", "Answers by status.", ["status"], registry=self.manager.metrics.registry)
        self._app = application(self._targets, self._guard, lambda status: answers.labels(str(status)).inc())

    async def run(self, stop: asyncio.Event) -> None:
        runner = runner_of(self._app, self._settings.drainSeconds)
        await runner.setup()
        try:
            self.port = await runner.listen(self._host, self._wanted_port)
            structlog.get_logger("proxy").info("serving", host=self._host, port=self.port)
            self.started.set()
            await self.manager.run(stop)
        finally:
            await runner.cleanup()


def runner_of(app: web.Application, drain_seconds: float) -> Runner:
    """The proxy's runner. It does not decompress bodies: the unit gets the client's Content-Encoding and length."""
    return Runner(app, malformed, handler_cancellation=True, shutdown_timeout=drain_seconds, auto_decompress=False)


def guard(settings: ProxySettings) -> Guard:
    """Who is let in; ConfigError when units would be open to a network without anybody having said so."""
    host, _ = split_address(settings.httpAddr)
    if is_loopback(host):
        return Guard(own_names(host, settings.allowedHosts))
    if settings.auth != "none":
        raise ConfigError(
            f"httpAddr: {settings.httpAddr} is reached from other machines, and the proxy asks nobody who they are: "
            "put something before it that does, and say `auth: none`"
        )
    return Guard(frozenset(name.strip("[]").lower() for name in settings.allowedHosts) or None)
