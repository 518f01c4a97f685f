"""The port that probes and Prometheus ask: alive, able to work, and how much was done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from gpu_runtime.kube.errors import ConfigError

Checks = Callable[[], Mapping[str, str | None]]


def health_app(checks: Checks, registry: CollectorRegistry) -> web.Application:
    """`/healthz` depends on nothing else: a dead dependency must restart nobody. `/readyz` names what is missing."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        problems = {name: problem for name, problem in checks().items() if problem is not None}
        body = msgspec.json.encode({"ready": not problems, "problems": problems})
        return web.Response(body=body, status=503 if problems else 200, content_type="application/json")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


@asynccontextmanager
async def serve(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serves inside the block; gives the port, which matters when 0 asked for any."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
