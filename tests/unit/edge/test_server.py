"""The order in which an HTTP server and what runs beside it end."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import ClientSession, web

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.edge.runner import Runner
from gpu_runtime.edge.server import HttpServer
from gpu_runtime.kube.manager import Manager

FEW_TURNS = 20


class Caches(Manager):
    """Caches that are filled from nowhere."""

    def __init__(self, diary: list[str]) -> None:
        self._diary = diary

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._diary.append("caches ended")


def refuse(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message)


@mutant("edge/server.py", "            await finish()\n", "            ended.set()\n            await finish()\n")
@mutant(
    "edge/server.py",
    "            await finish()\n            if work is not None:\n                work.cancel()\n",
    "            if work is not None:\n                work.cancel()\n            await finish()\n",
)
async def test_requests_end_first_then_what_they_left_to_do_then_the_background_and_the_caches() -> None:
    diary: list[str] = []
    asked, answer, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        asked.set()
        await answer.wait()
        diary.append("answered")
        return web.Response(text="done")

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            diary.append("background ended")

    async def finish() -> None:
        for _ in range(FEW_TURNS):
            await asyncio.sleep(0)
        diary.append("finished")

    app = web.Application()
    app.add_routes([web.get("/", slow)])
    server = HttpServer(Runner(app, refuse, shutdown_timeout=60), "127.0.0.1:0", Caches(diary))
    async with asyncio.TaskGroup() as group, ClientSession() as client:
        group.create_task(server.run(stop, background=background, finish=finish))
        await eventually(server.started.is_set, what="it listens")
        request = group.create_task(_text(client, server.url))
        await asked.wait()
        stop.set()
        await asyncio.sleep(0)
        assert diary == []
        answer.set()
        assert await request == "done"
    assert diary[:2] == ["answered", "finished"]
    assert sorted(diary[2:]) == ["background ended", "caches ended"]


async def _text(client: ClientSession, url: str) -> str:
    async with client.get(url) as response:
        return await response.text()


@mutant("edge/runner.py", "        await stop_accepting(self)\n", "")
async def test_a_client_that_connects_as_the_server_stops_is_not_left_waiting() -> None:
    runner = Runner(web.Application(), refuse, shutdown_timeout=1)
    await runner.setup()
    port = await runner.listen("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        await asyncio.sleep(0)  # the loop has accepted the connection when the next task begins, and not begun it
        await asyncio.create_task(runner.cleanup())
        assert await asyncio.to_thread(client.recv, 1) == b""
