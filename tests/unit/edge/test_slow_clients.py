"""A client that reads slowly is served; one that reads no more is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.edge.runner import _Protocol


class Unread(asyncio.Transport):
    """A connection with so many bytes that its client has not read."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = 0
        self.cuts = 0

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.cuts += 1


async def refuse(_: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPNotFound


@mutant("edge/runner.py", "if transport.get_write_buffer_size() < unread:", "if False:")
async def test_a_client_is_cut_off_only_when_it_has_read_nothing_between_two_looks() -> None:
    nothing: Any = None
    client, loop = Unread(), asyncio.get_running_loop()
    protocol = _Protocol(web.Server(refuse), refuse=nothing, stalled_seconds=3600.0, loop=loop)
    client.unread = 50
    protocol._look(client, 100)
    assert client.cuts == 0
    with capture_logs():
        protocol._look(client, 50)
    assert client.cuts == 1
    protocol._unwatch()
