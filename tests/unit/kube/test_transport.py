"""What becomes of connections: to a server that has gone silent, and where there are many of them."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from equipment.fault_proxy.certificates import loopback_tls
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Query, Unreachable, transport
from gpu_runtime.kube import client as kube_client
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.config import ClusterConfig
from gpu_runtime.kube.credentials import StaticToken
from gpu_runtime.kube.errors import NoConnection
from gpu_runtime.kube.process import OPEN_FILES, raise_open_files_limit

PATIENCE = 20.0  # of the server with the client, less than a farewell in TLS may take
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
WATCH_OPENED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class SilentServer:
    """Speaks TLS, answers at most once, and then says nothing more: not even its part of a farewell."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        authority = ssl.create_default_context(cadata=loopback_tls().ca_pem.decode())
        url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.config = ClusterConfig(url, authority, StaticToken(None), "default", "this test")

    def serve_one(self, answer: bytes) -> None:
        """Returns when the client's side of the connection is closed; TimeoutError where it stays open."""
        accepted, _ = self._listener.accept()
        with (
            contextlib.suppress(ConnectionError, ssl.SSLError),  # a reset closes it as well
            accepted.dup() as raw,
            loopback_tls().server_context().wrap_socket(accepted, server_side=True) as secured,
        ):
            secured.recv(1 << 16)
            self.asked.set()
            secured.sendall(answer)
            raw.settimeout(PATIENCE)
            while raw.recv(1 << 16):
                pass

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
async def silent() -> AsyncIterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


@mutant("kube/transport.py", "self.connection.transport.abort()", "pass")
async def test_a_watch_that_fell_silent_leaves_no_connection_behind(silent: SilentServer) -> None:
    served = asyncio.create_task(asyncio.to_thread(silent.serve_one, WATCH_OPENED))
    async with Client(silent.config) as client:
        with pytest.raises(Unreachable, match=r"no answer from .* in time"):
            await anext(client.watch(Query(CONFIG_MAPS), resource_version="1", timeout=1, silence=0.5))
        await served


async def test_a_request_that_is_given_up_leaves_no_connection_behind(silent: SilentServer) -> None:
    served = asyncio.create_task(asyncio.to_thread(silent.serve_one, b""))
    async with Client(silent.config) as client:
        request = asyncio.create_task(client.get(CONFIG_MAPS, Key("default", "a")))
        await asyncio.to_thread(silent.asked.wait)
        request.cancel()
        await served


@mutant("kube/transport.py", "server_hostname=self.config.tls_server_name,", "server_hostname=None,")
async def test_a_server_must_have_the_certificate_of_the_name_that_the_kubeconfig_gives_it(
    silent: SilentServer,
) -> None:
    served = asyncio.create_task(asyncio.to_thread(silent.serve_one, NOT_FOUND))
    async with Client(replace(silent.config, tls_server_name="another.example")) as client:
        with pytest.raises(Unreachable, match="certificate"):
            await client.get(CONFIG_MAPS, Key("default", "a"))
    await served


class BusyServer:
    """Opens every watch and log and says no more there; answers other requests, unless it is told to wait."""

    def __init__(self) -> None:
        self.url = ""
        self.streams = 0
        self.waiting = 0
        self.begins, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.begins.set()
        self.go_on.set()

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(self.url, None, StaticToken(None), "default", "this test")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query or "follow" in request.query:
            await self.begins.wait()
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            self.streams += 1
            await self.ended.wait()
            return response
        self.waiting += 1
        await self.go_on.wait()
        return web.json_response({"metadata": {"name": "a", "namespace": "default"}})


@pytest.fixture
async def busy() -> AsyncIterator[BusyServer]:
    server = BusyServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    for event in (server.begins, server.go_on, server.ended):
        event.set()
    await runner.cleanup()


async def drain(stream: AsyncGenerator[object, None]) -> None:
    async with aclosing(stream):
        async for _ in stream:
            pass


@mutant("kube/transport.py", "aiohttp.TCPConnector(limit=0,", "aiohttp.TCPConnector(limit=self._connections,")
async def test_500_open_watches_and_followed_logs_leave_every_connection_to_requests(busy: BusyServer) -> None:
    raise_open_files_limit()
    async with Client(busy.config, connections=4) as kube, asyncio.TaskGroup() as group:
        for opened in range(50, 501, 50):  # a busy machine would not open all of them within the limit of one
            for _ in range(25):
                group.create_task(drain(kube.watch(Query(CONFIG_MAPS), resource_version="1", timeout=600, silence=600)))
                group.create_task(drain(kube.stream("/api/v1/namespaces/ns/pods/a/log", parameters={"follow": "true"})))
            await eventually(lambda: busy.streams == opened, what="every stream is open")  # noqa: B023
        busy.go_on.clear()
        asked = [group.create_task(kube.get(CONFIG_MAPS, Key("default", "a"))) for _ in range(4)]
        await eventually(lambda: busy.waiting == 4, what="every request is at the server")
        busy.go_on.set()
        await asyncio.gather(*asked)
        busy.ended.set()


@mutant("kube/transport.py", "            async with asyncio.timeout(CONNECT_SECONDS):\n", "            if True:\n")
async def test_a_request_waits_for_a_free_connection_no_longer_than_said(
    busy: BusyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 0.2)
    busy.go_on.clear()
    async with Client(busy.config, connections=2) as kube:
        asked = [asyncio.create_task(kube.get(CONFIG_MAPS, Key("default", "a"))) for _ in range(2)]
        await eventually(lambda: busy.waiting == 2)
        with pytest.raises(NoConnection, match=r"not sent: all 2 connections to .* were busy for 0\.2 s"):
            await asyncio.wait_for(kube.get(CONFIG_MAPS, Key("default", "a")), 20)
        busy.go_on.set()
        await asyncio.gather(*asked)
        await kube.get(CONFIG_MAPS, Key("default", "a"))
    assert busy.waiting == 3


@mutant("kube/transport.py", "total=None, connect=CONNECT_SECONDS,", "total=None,")
async def test_a_watch_does_not_wait_for_a_server_that_accepts_and_never_greets(
    silent: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 0.2)
    async with Client(silent.config) as kube:
        with pytest.raises(Unreachable, match=r"no connection to .* within 0\.2 s"):
            await asyncio.wait_for(
                anext(kube.watch(Query(CONFIG_MAPS), resource_version="1", timeout=600, silence=600)), 20
            )


@mutant("kube/transport.py", "async with asyncio.timeout(begins_within):", "if True:")
async def test_a_watch_that_is_never_begun_is_given_up(busy: BusyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "OPEN_SECONDS", 0.2)
    busy.begins.clear()
    async with Client(busy.config) as kube:
        with pytest.raises(Unreachable, match=r"no answer from .* in time"):
            await asyncio.wait_for(
                anext(kube.watch(Query(CONFIG_MAPS), resource_version="1", timeout=600, silence=600)), 20
            )


@pytest.fixture
def few_files() -> Iterator[int]:
    """No file can be opened until the limit is raised; gives how far it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open() as file:
        lowest_free = file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_process_at_its_limit_of_open_files_says_so(busy: BusyServer, few_files: int) -> None:
    async with Client(busy.config) as kube:
        with pytest.raises(Unreachable, match="too many open files; raise the limit"):
            await kube.get(CONFIG_MAPS, Key("default", "a"))
        assert raise_open_files_limit() == min(few_files, OPEN_FILES)
        await kube.get(CONFIG_MAPS, Key("default", "a"))
