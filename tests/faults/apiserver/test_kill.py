"""kill -9 at any moment: nothing that was answered is lost, nothing is half there, watches go on where they were."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from equipment.servers import use_running
from faults.apiserver.churn import CONFIGMAPS, Client, Tally, Thing, document, session
from faults.apiserver.watcher import END, Watcher
from realkube.api import Access
from realkube.process import Process, free_ports, wait_until

KILLS = int(os.environ.get("GPU_RUNTIME_KILLS", "100"))
CLIENTS = 8
THINGS = 6
MOST_WRITES = 40
"""Up to as many answered writes lie between two kills, so that kills meet writes in every stage."""
SEED = os.environ.get("GPU_RUNTIME_KILL_SEED") or secrets.token_hex(4)


class Server:
    """The embedded server as a child that is killed and started again on the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_ports(1)[0]
        self.kubeconfig = folder / "data" / "kubeconfig"
        self.starts = 0
        self._process = self._started()
        wait_until(self.kubeconfig.exists, "the first start answers", [self._process])

    def _started(self) -> Process:
        self.starts += 1
        data = str(self._folder / "data")
        command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", data, "--port", str(self._port)]
        return Process("embedded", command, self._folder / f"{self.starts}.log")

    def kill(self) -> None:
        self._process.kill()

    def start_again(self, access: Access) -> None:
        self._process = self._started()
        wait_until(access.ready, "the server answers again", [self._process])


class Killer:
    """Kills the server each time that a random number of writes was answered."""

    def __init__(self, server: Server, access: Access, random: Random, tally: Tally, up: asyncio.Event) -> None:
        self._server, self._access, self._random, self._up = server, access, random, up
        self._due = asyncio.Event()
        self._left = 0
        tally.on_answer = self._answered

    def _answered(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._due.set()

    async def run(self, kills: int) -> None:
        for _ in range(kills):
            self._left = self._random.randrange(1, MOST_WRITES)
            self._due.clear()
            self._up.set()
            await self._due.wait()
            await asyncio.sleep(self._random.random() * 0.003)  # not to synchronise: to meet every stage of a write
            self._up.clear()
            self._server.kill()
            await asyncio.to_thread(self._server.start_again, self._access)
        self._up.set()


async def finish(access: Access, clients: list[Client], watchers: list[Watcher]) -> None:
    """The last audit, and what every watcher must have seen."""
    for client in clients:
        await client.audit()
    async with session(access) as http, http.post(CONFIGMAPS, json=document(END, 0)) as response:
        assert response.status == 201, await response.text()


def assert_seen(clients: list[Client], watcher: Watcher) -> None:
    for thing in (thing for client in clients for thing in client.things):
        assert watcher.seen[thing.name] == thing.history, thing.name


async def churned(server: Server, access: Access, tell: Callable[[str], None]) -> None:
    up, stopping, tally, random = asyncio.Event(), asyncio.Event(), Tally(), Random(SEED)
    async with AsyncExitStack() as stack:
        https = [await stack.enter_async_context(session(access)) for _ in range(CLIENTS + 2)]
        clients = [
            Client(
                name=f"c{number}",
                http=https[number],
                random=Random(f"{SEED}/{number}"),
                up=up,
                stopping=stopping,
                tally=tally,
                things=[Thing(f"c{number}-{thing}") for thing in range(THINGS)],
            )
            for number in range(CLIENTS)
        ]
        async with https[0].get(CONFIGMAPS) as response:
            version = int((await response.json())["metadata"]["resourceVersion"])
        watchers = [Watcher(https[CLIENTS + each], up, version, bookmarks=bool(each)) for each in range(2)]
        async with asyncio.timeout(1800), asyncio.TaskGroup() as group:
            watching = [group.create_task(watcher.run()) for watcher in watchers]
            writing = [group.create_task(client.run()) for client in clients]
            await Killer(server, access, random, tally, up).run(KILLS)
            stopping.set()
            await asyncio.gather(*writing)
            await finish(access, clients, watchers)
            await asyncio.gather(*watching)
        for watcher in watchers:
            assert_seen(clients, watcher)
    tell(
        f"seed {SEED}: {KILLS} kills, {tally.answered} writes answered, {tally.unanswered} not, "
        f"of those {tally.unanswered_but_done} were done; watches resumed {[each.resumed for each in watchers]} times"
    )


async def test_a_killed_server_keeps_every_answered_write_and_every_watch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    tell(f"GPU_RUNTIME_KILL_SEED={SEED}")
    server = Server(tmp_path)
    try:
        with use_running(server.kubeconfig, tmp_path) as access:
            await churned(server, access, tell)
    finally:
        server.kill()
