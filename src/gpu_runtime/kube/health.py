"""The health port: /healthz and /readyz for probes, /metrics for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from gpu_runtime.errors import ConfigError

Checks = Callable[[], Mapping[str, str | None]]
"""The problem of each part of the process; None when it works."""


class Health:
    """The checks and metrics of one process. It is not ready before its first checks are added, nor while it ends."""

    def __init__(self, ending: Callable[[], bool] = lambda: False) -> None:
        self._ending = ending
        self._checks: list[Checks] = []
        self._warnings: list[Checks] = []
        self._registries: list[CollectorRegistry] = []
        self.waits: dict[str, Callable[[], Awaitable[None]]] = {}
        """Paths that are answered with 200 when something has happened."""

    def add(self, checks: Checks = dict, registry: CollectorRegistry | None = None) -> None:
        """Without checks: the process is ready from now on."""
        self._checks.append(checks)
        if registry is not None:
            self._registries.append(registry)

    def warn(self, checks: Checks) -> None:
        """Adds checks that `/readyz` shows and that do not make the process unready."""
        self._warnings.append(checks)

    def warnings(self) -> dict[str, str]:
        return {name: problem for checks in self._warnings for name, problem in checks().items() if problem is not None}

    def problems(self) -> dict[str, str]:
        found = {name: problem for checks in self._checks for name, problem in checks().items() if problem is not None}
        if not self._checks:
            found["process"] = "starting"
        if self._ending():
            found["process"] = "ending"
        return found

    def metrics(self) -> bytes:
        return b"".join(generate_latest(registry) for registry in self._registries)


@asynccontextmanager
async def serve(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """Serves inside the block; gives the port, which matters when 0 asked for any."""
    runner = web.AppRunner(_application(health), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        except UnicodeError as error:  # such as an empty part between two dots
            raise ConfigError(f"cannot listen on {host}:{port}: {host} is not a host name") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _application(health: Health) -> web.Application:
    """`/healthz` checks no dependency: a failed one must not restart this process. `/readyz` lists the problems, and
    warnings about parts that the process can do without."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        problems = health.problems()
        answer = {"ready": not problems, "problems": problems}
        if warnings := health.warnings():
            answer["warnings"] = warnings
        body = msgspec.json.encode(answer)
        return web.Response(body=body, status=503 if problems else 200, content_type="application/json")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=health.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def wait(request: web.Request) -> web.Response:
        if request.path not in health.waits:
            raise web.HTTPNotFound
        await health.waits[request.path]()
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    app.add_routes([web.get("/{path}", wait)])
    return app
