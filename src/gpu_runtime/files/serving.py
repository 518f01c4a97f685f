"""Serves the files of a volume over HTTP, for reading only: lists, downloads with ranges, and archives of folders."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gpu_runtime.edge.names import is_loopback, own_names
from gpu_runtime.edge.runner import Runner
from gpu_runtime.edge.server import HttpServer
from gpu_runtime.errors import ConfigError
from gpu_runtime.files.handler import FilesHandler, refusal
from gpu_runtime.files.pages import STYLE_HASH
from gpu_runtime.files.volume import Volume

STALLED_SECONDS = 60.0  # a client that reads nothing for this time is cut off

# The sandbox gives each page an origin of its own: no script runs in it, and pages of units, which have the same
# address, cannot read it. Without allow-downloads, a browser refuses to save files.
SECURITY_HEADERS = {
    "Content-Security-Policy": "sandbox allow-downloads; default-src 'none'; "
    f"style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class ServeOptions:
    """`prefix` is the beginning of every path, such as /storages/default/data; empty to serve at the root."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 5000
    prefix: str = ""
    drain_seconds: float = 5.0


async def serve(options: ServeOptions, stop: asyncio.Event) -> None:
    """Serves until `stop`. Then running requests have a few seconds to end; the rest is cut off."""
    await file_server(options).run(stop)


def file_server(options: ServeOptions) -> HttpServer:
    """The server; ConfigError when the folder cannot be opened."""
    try:
        volume = Volume(options.folder)
    except OSError as error:
        raise ConfigError(f"cannot open the folder {options.folder}: {error.strerror}") from error
    # On loopback a page of another site could reach the server through a DNS name of its own.
    hosts = own_names(options.host, []) if is_loopback(options.host) else None
    app = application(volume, options.prefix, hosts)
    runner = Runner(app, refusal, shutdown_timeout=options.drain_seconds, stalled_seconds=STALLED_SECONDS)
    host = f"[{options.host}]" if ":" in options.host else options.host
    return HttpServer(runner, f"{host}:{options.port}")


def application(volume: Volume, prefix: str = "", hosts: frozenset[str] | None = None) -> web.Application:
    """Answers all paths below the prefix, and /healthz. Closes the volume at its end."""
    handler = FilesHandler(volume, prefix, hosts)
    app = web.Application()
    app.router.add_route("*", r"/{path:[\s\S]*}", handler.handle)  # names may hold newlines
    app.on_response_prepare.append(_secure)
    app.on_cleanup.append(handler.close)
    return app


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
    response.headers.pop("Server", None)
