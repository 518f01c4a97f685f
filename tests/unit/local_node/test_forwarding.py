"""Relaying between a port outside and a port inside."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpu_runtime.local.node.shim.forwarding import Forwarder

OUTSIDE = "127.213.255.1"


@contextmanager
def forwarding(port: int) -> Iterator[None]:
    """A forwarder driven as the shim drives it, until the block ends."""
    forwarder = Forwarder([{"listen": OUTSIDE, "port": port}])
    over = threading.Event()

    def drive() -> None:
        while not over.is_set():
            poll = select.poll()
            for descriptor, mask in forwarder.interests().items():
                poll.register(descriptor, mask)
            for descriptor, _ in poll.poll(20):
                forwarder.ready(descriptor)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        forwarder.close()


def test_a_large_request_and_its_echo_pass_whole_and_the_end_is_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def echo() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)

        threading.Thread(target=echo).start()
        payload = bytes(range(256)) * 20_000
        with forwarding(port), socket.create_connection((OUTSIDE, port), timeout=30) as client:

            def say() -> None:
                client.sendall(payload)
                client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=say)
            sender.start()
            received = b""
            while data := client.recv(1 << 16):
                received += data
            sender.join()
        assert received == payload


def test_a_port_where_nobody_listens_inside_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with forwarding(port), socket.create_connection((OUTSIDE, port), timeout=30) as client:
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            return


def test_a_taken_port_is_named() -> None:
    with socket.create_server((OUTSIDE, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} cannot be opened"):
            Forwarder([{"listen": OUTSIDE, "port": port}])
