"""Ports of a pod on this machine, told once for the embedded cluster and for a real one."""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import Popen

from equipment.waiting import eventually_sync
from local.shells.person import Person
from local.shells.scenarios import POD, scenario

AT_ONCE = 50
SERVER = """
import hashlib, socket, threading
listener = socket.create_server(("127.0.0.1", PORT), backlog=128)
def serve(peer):
    with peer:
        file = peer.makefile("rb")
        size = int.from_bytes(file.read(8), "big", signed=True)  # -1: until the other side has said all
        seen = file.read(size)
        peer.sendall(hashlib.sha256(seen).hexdigest().encode() + seen)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


@contextmanager
def a_server(person: Person) -> Iterator[int]:
    """A port of the pod's own loopback that sends back what it was given."""
    port = 20_000 + secrets.randbelow(10_000)
    with person.started("exec", POD, "--", "python3", "-c", SERVER.replace("PORT", str(port))):
        listening = f"import socket; socket.create_connection(('127.0.0.1', {port})).close()"
        eventually_sync(lambda: person.exec(POD, "python3", "-c", listening).code == 0, what="it listens")
        yield port


@contextmanager
def forwarded(person: Person, *ports: int) -> Iterator[tuple[Popen[bytes], list[int]]]:
    """The machine's ports that lead to those of the pod."""
    with person.started("port-forward", POD, *(f":{port}" for port in ports)) as process:
        assert process.stdout is not None
        found: dict[int, int] = {}
        for line in iter(process.stdout.readline, b""):
            if told := re.match(r"Forwarding from 127.0.0.1:(\d+) -> (\d+)", line.decode()):
                found[int(told[2])] = int(told[1])
            if len(found) == len(ports):
                break
        yield process, [found[port] for port in ports]


def echoed(port: int, content: bytes, *, until_end: bool = False) -> bytes:
    """Says all, by length or until the end of what it says, then hears all."""
    size = -1 if until_end else len(content)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(connection.sendall, size.to_bytes(8, "big", signed=True) + content)
        if until_end:
            sent.result()
            connection.shutdown(socket.SHUT_WR)
        heard = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        sent.result()
    return heard


def as_sent(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + content


@scenario
def a_forwarded_port_carries_bytes_both_ways(person: Person) -> None:
    with a_server(person) as port, forwarded(person, port) as (_, (here,)):
        for content in (b"", b"x", secrets.token_bytes(5_000_000)):
            assert echoed(here, content) == as_sent(content)


@scenario
def many_connections_share_one_forwarding(person: Person) -> None:
    contents = [secrets.token_bytes(1 + number * 997) for number in range(AT_ONCE)]
    with a_server(person) as port, forwarded(person, port) as (_, (here,)), ThreadPoolExecutor(AT_ONCE) as pool:
        assert list(pool.map(lambda each: echoed(here, each), contents)) == [as_sent(each) for each in contents]


@scenario
def a_connection_to_a_closed_port_ends_the_forwarding_and_says_why(person: Person) -> None:
    with forwarded(person, 9) as (process, (here,)):
        with socket.create_connection(("127.0.0.1", here), timeout=60) as connection:
            assert connection.recv(1) == b""
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert f"an error occurred forwarding {here} -> 9: error forwarding port 9 to pod " in said
        assert "IPv4: dial tcp4 127.0.0.1:9: connect: connection refused" in said
        assert said.endswith("error: lost connection to pod\n")
        assert process.wait(60) == 1
