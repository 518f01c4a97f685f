"""A process that only tests have: its settings, its code and its declaration. It needs no Kubernetes.

Run as a script, this file is `gpu-runtime` with the toy among its processes.
"""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter

from gpu_runtime.api.rbac import Rule
from gpu_runtime.cli.main import main as gpu_runtime
from gpu_runtime.cmd.process import InCluster, InUp, Process
from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.config import Health, Log
from gpu_runtime.edge.runner import Runner
from gpu_runtime.edge.server import HttpServer
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.process import ProcessContext


class ToySettings(Struct, frozen=True, kw_only=True):
    """Every process has `log` and `health`; one that serves HTTP has `httpAddr` and `allowedHosts`."""

    log: Log = Log()
    health: Health = Health(port=8099)
    httpAddr: str = "127.0.0.1:8098"
    allowedHosts: list[str] = []
    greeting: str = "hello"
    apiURL: str = ""


async def main(settings: ToySettings, process: ProcessContext) -> None:
    """Greets whoever asks; a greeting may also stand for a setting that cannot work, or for a defect."""
    if settings.greeting == "unusable":
        raise ConfigError("greeting: cannot be used")
    if settings.greeting == "defect":
        raise ZeroDivisionError
    if settings.greeting == "both":
        raise ExceptionGroup("two at once", [ConfigError("greeting: cannot be used"), ZeroDivisionError()])
    registry = CollectorRegistry()
    greeted = Counter("toy_greetings", "Greetings.", registry=registry)

    async def greet(_: web.Request) -> web.Response:
        greeted.inc()
        return web.Response(text=settings.greeting)

    app = web.Application()
    app.add_routes([web.get("/", greet)])
    server = HttpServer(Runner(app, _refuse, shutdown_timeout=1), settings.httpAddr)
    process.health.add(lambda: {"server": None if server.started.is_set() else "not listening"}, registry)
    await server.run(process.stop)


def _refuse(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message)


TOY = Process(
    name="toy",
    summary="Greet whoever asks.",
    main=f"{__name__}:main",
    settings=f"{__name__}:ToySettings",
    http=True,
    kubernetes=False,
    rules=(Rule("", ("configmaps",), ("get",)),),
    up=InUp(
        after=("runtime-api",),
        port=20,
        variable="TOY_URL",
        pages={"Greeting": "/"},
        settings=lambda urls: {"apiURL": urls["runtime-api"]},
    ),
    cluster=InCluster(replicas=3, secrets={"words": "toy-words"}),
)

if __name__ == "__main__":
    PROCESSES[TOY.name] = TOY
    gpu_runtime()
