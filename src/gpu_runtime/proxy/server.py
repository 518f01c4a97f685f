"""One process of the proxy: caches, and the HTTP server beside them."""

from __future__ import annotations

import asyncio
import ipaddress

import structlog
from aiohttp import web
from prometheus_client import Counter

from gpu_runtime.config import ConfigError, ProxySettings
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.manager import Manager
from gpu_runtime.proxy.app import application
from gpu_runtime.proxy.guard import LOOPBACK_NAMES, Guard
from gpu_runtime.proxy.targets import Targets


class Proxy:
    """Serves until `stop`; then it takes no more requests and ends those that it has."""

    def __init__(self, client: Client, settings: ProxySettings) -> None:
        self.started = asyncio.Event()
        self.port = 0
        self._settings = settings
        self._host, _, port = settings.httpAddr.rpartition(":")
        self._wanted_port = int(port)
        self._guard = guard(settings)
        self.manager = Manager(client, health=(settings.health.host, settings.health.port))
        refused = [ipaddress.ip_network(cidr) for cidr in settings.refusedCIDRs]
        self._targets = Targets.of(self.manager, refused)
        answers = Counter("proxy_answers", "Answers by status.", ["status"], registry=self.manager.metrics.registry)
        self._app = application(self._targets, self._guard, lambda status: answers.labels(str(status)).inc())

    async def run(self, stop: asyncio.Event) -> None:
        runner = web.AppRunner(
            self._app, access_log=None, handler_cancellation=True, shutdown_timeout=self._settings.drainSeconds
        )
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, self._host.strip("[]") or None, self._wanted_port).start()
            except OSError as error:
                raise ConfigError(f"cannot listen on {self._settings.httpAddr}: {error.strerror}") from error
            self.port = runner.addresses[0][1]
            structlog.get_logger("proxy").info("serving", host=self._host, port=self.port)
            self.started.set()
            await self.manager.run(stop)
        finally:
            await runner.cleanup()


def guard(settings: ProxySettings) -> Guard:
    """Who is let in; ConfigError when units would be open to a network without anybody having said so."""
    host = settings.httpAddr.rpartition(":")[0].strip("[]")
    named = frozenset(name.lower() for name in settings.allowedHosts)
    if is_loopback(host):
        return Guard(named | {*LOOPBACK_NAMES, host.lower()})
    if settings.auth != "none":
        raise ConfigError(
            f"httpAddr: {settings.httpAddr} is reached from other machines, and the proxy asks nobody who they are: "
            "put something before it that does, and say `auth: none`"
        )
    return Guard(named or None)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
