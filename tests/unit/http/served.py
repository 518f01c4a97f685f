"""Routes of a test's own in the whole application: envelope, limits, streams and the server under them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from gpu_runtime.edge.runner import Runner
from gpu_runtime.http.app import application
from gpu_runtime.http.errors import malformed
from gpu_runtime.http.guard import Guard
from gpu_runtime.http.route import Answer, AnyRoute, Call, Reply, Route
from gpu_runtime.http.streams import STREAMS, Streams

Handler = Callable[[Call[Any, Any, Any]], Awaitable[Reply | web.StreamResponse]]


def route(path: str, handler: Handler) -> AnyRoute:
    return Route("GET", path, "A test's", "test", handler, (Answer(200, "Fine."),))


async def answer_at_once(_: Call[Any, Any, Any]) -> Reply:
    return Reply("fine")


@asynccontextmanager
async def serving(
    *routes: AnyRoute, streams: int = 10, stalled_seconds: float | None = None, **limits: Any
) -> AsyncIterator[str]:
    """The address of the routes; limits are those of `application`."""
    nothing: Any = None  # no route of a test asks for a service
    app = application([*routes, route("/quick", answer_at_once)], nothing, Guard(), CollectorRegistry(), **limits)
    app[STREAMS] = Streams(streams)
    app.on_shutdown.append(app[STREAMS].close)
    runner = Runner(app, malformed, shutdown_timeout=5, stalled_seconds=stalled_seconds)
    await runner.setup()
    try:
        port = await runner.listen("127.0.0.1", 0)
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        await runner.cleanup()
