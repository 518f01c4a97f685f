"""What the proxy does with its connections to the server when it closes."""

from __future__ import annotations

import asyncio
import socket
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from pathlib import Path

import pytest
from multidict import CIMultiDict

from equipment.fault_proxy.call import parse_call
from equipment.fault_proxy.certificates import loopback_tls
from equipment.fault_proxy.history import History
from equipment.fault_proxy.passage import Passage
from equipment.fault_proxy.upstream import Upstream
from equipment.servers import ApiServer


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[ApiServer]:
    """A server that greets its clients, and then neither answers nor says farewell."""
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with loopback_tls().server_context().wrap_socket(connection, server_side=True):
            ended.wait(60)

    thread = threading.Thread(target=serve)
    thread.start()
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(loopback_tls().ca_pem)
    unused = Path("unused")
    yield ApiServer(f"https://127.0.0.1:{listening.getsockname()[1]}", ca_file, "secret", unused, version="1")
    ended.set()
    thread.join()
    listening.close()


async def test_a_connection_whose_request_was_cancelled_as_it_opened_is_closed_with_the_others(
    silent: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, path = Upstream(silent, keep_reads=False), "/api/v1/pods"
    call = parse_call("GET", path, CIMultiDict(), b"")
    passage = Passage(call, path, CIMultiDict(), b"", History().begin(call, "proxy"))
    work = asyncio.create_task(upstream.send(passage))
    go_on = SSLProtocol._wakeup_waiter

    def cancelled_as_it_opens(protocol: SSLProtocol, problem: BaseException | None = None) -> None:
        go_on(protocol, problem)
        work.cancel()

    monkeypatch.setattr(SSLProtocol, "_wakeup_waiter", cancelled_as_it_opens)
    with pytest.raises(asyncio.CancelledError):
        await work
    (connection,) = upstream._open()
    await upstream.close()
    assert connection.fileno() == -1
