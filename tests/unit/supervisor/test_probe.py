from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from gpu_runtime.supervisor.listening import listens
from gpu_runtime.supervisor.probe import problem
from realkube.process import free_ports


@asynccontextmanager
async def answering(status: int, body: str) -> AsyncIterator[str]:
    """The URL of a server that always gives this answer."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=body)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/readyz"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, "ok", None),
        (
            503,
            '{"ready": false, "problems": {"disk": "is full", "broker": "is away"}}',
            "disk: is full; broker: is away",
        ),
        (503, '{"status": "unavailable", "error": "no space left on device"}', "no space left on device"),
        (503, "not yet", "answers 503"),
        (404, "", "answers 404"),
    ],
)
async def test_a_process_says_itself_what_it_lacks(status: int, body: str, said: str | None) -> None:
    async with answering(status, body) as url:
        assert await problem(url) == said


async def test_who_does_not_listen_does_not_answer() -> None:
    assert await problem(f"http://127.0.0.1:{free_ports(1)[0]}/readyz") == "does not answer"


async def test_a_port_belongs_to_the_process_that_listens_on_it() -> None:
    async with answering(200, "") as url:
        port = int(url.rsplit(":", 1)[1].split("/")[0])
        assert listens(os.getpid(), port)
        assert not listens(os.getppid(), port)
        assert not listens(os.getpid(), free_ports(1)[0])
