"""What becomes of connections to a server that has gone silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator

import pytest

from equipment.fault_proxy.certificates import loopback_tls
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Client, Query, Unreachable
from gpu_runtime.kube.builtin import CONFIG_MAPS
from gpu_runtime.kube.config import ClusterConfig
from gpu_runtime.kube.credentials import StaticToken

PATIENCE = 20.0  # of the server with the client, less than a farewell in TLS may take
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
