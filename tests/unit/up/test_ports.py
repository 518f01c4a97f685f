from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import pytest

from gpu_runtime.cmd.up.layout import Ports
from gpu_runtime.cmd.up.ports import ANY, choose
from gpu_runtime.config import ConfigError
from realkube.process import free_ports

NOTHING: frozenset[int] = frozenset()


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def last_time() -> Ports:
    return Ports(**dict(zip(Ports.__struct_fields__, free_ports(6), strict=True)))


def test_the_ports_of_the_last_time_are_used_again() -> None:
    last = last_time()
    assert choose(last.api, last, NOTHING) == last


def test_no_port_is_used_twice() -> None:
    (api,) = free_ports(1)
    ports = choose(api, None, NOTHING)
    assert len(set(msgspec.structs.astuple(ports))) == 6
    assert ports.api == api


def test_a_port_that_somebody_else_has_taken_is_replaced_by_a_free_one(taken: int) -> None:
    last = msgspec.structs.replace(last_time(), proxyHealth=taken)
    ports = choose(last.api, last, NOTHING)
    assert ports.proxyHealth != taken
    assert ports.proxyHealth in ANY
    assert ports.proxy == last.proxy


def test_the_proxy_is_beside_the_api_where_that_is_free() -> None:
    last = last_time()
    beside = frozenset({last.api + 10})  # free for us, whoever may have it on this machine
    assert choose(last.api, None, beside).proxy == last.api + 10
    assert choose(last.api, last, beside).proxy == last.proxy


def test_a_port_that_a_process_of_ours_still_holds_is_kept(taken: int) -> None:
    last = msgspec.structs.replace(last_time(), proxyHealth=taken)
    assert choose(last.api, last, frozenset({taken})) == last
    assert choose(taken, None, frozenset({taken})).api == taken


def test_the_api_has_the_port_that_was_asked_for_or_it_is_said_that_it_is_taken(taken: int) -> None:
    with pytest.raises(ConfigError, match=f"port {taken} of 127.0.0.1 is taken: give the API another with --port"):
        choose(taken, None, NOTHING)
