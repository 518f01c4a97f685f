from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.cmd.up import ports as module
from gpu_runtime.cmd.up.layout import Ports
from gpu_runtime.cmd.up.ports import ANY
from gpu_runtime.errors import ConfigError
from realkube.process import free_ports

NOTHING: frozenset[int] = frozenset()
API, PROXY = "runtime-api", "proxy"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def choose(first: int, last: Ports | None, kept: frozenset[int]) -> Ports:
    return module.choose(first, PROCESSES.values(), last, kept)


def last_time(**health: int) -> Ports:
    free = iter(free_ports(3 + 2 * len(PROCESSES)))
    http = {name: next(free) for name, process in PROCESSES.items() if process.http}
    return Ports(
        kubernetes=next(free),
        http=http,
        health={name: next(free) for name in PROCESSES} | health,
        broker=next(free),
        brokerHealth=next(free),
    )


def test_the_ports_of_the_last_time_are_used_again() -> None:
    last = last_time()
    assert choose(last.http[API], last, NOTHING) == last


def test_no_port_is_used_twice() -> None:
    (api,) = free_ports(1)
    ports = choose(api, None, NOTHING)
    chosen = [ports.kubernetes, ports.broker, ports.brokerHealth, *ports.http.values(), *ports.health.values()]
    assert len(chosen) == len(set(chosen)) > 2 * len(ports.http)
    assert ports.http[API] == api


@mutant("cmd/up/ports.py", "port not in chosen and ", "")
def test_a_port_that_the_api_now_has_is_not_given_again_to_who_had_it_the_last_time() -> None:
    last = last_time()
    ports = choose(last.kubernetes, last, NOTHING)
    assert ports.http[API] == last.kubernetes != ports.kubernetes


def test_a_port_that_somebody_else_has_taken_is_replaced_by_a_free_one(taken: int) -> None:
    last = last_time(proxy=taken)
    ports = choose(last.http[API], last, NOTHING)
    assert ports.health[PROXY] != taken
    assert ports.health[PROXY] in ANY
    assert ports.http[PROXY] == last.http[PROXY]


def test_a_process_that_was_not_there_the_last_time_gets_free_ports() -> None:
    last = last_time()
    before = replace(last, http={API: last.http[API]}, health={API: last.health[API]}, broker=0, brokerHealth=0)
    ports = choose(last.http[API], before, NOTHING)
    assert {ports.broker, ports.brokerHealth} <= set(ANY)
    assert ports.health.keys() == PROCESSES.keys()
    assert ports.health[API] == last.health[API]


def test_the_proxy_is_beside_the_api_where_that_is_free() -> None:
    last = last_time()
    beside = frozenset({last.http[API] + 10})  # free for us, whoever may have it on this machine
    assert choose(last.http[API], None, beside).http[PROXY] == last.http[API] + 10
    assert choose(last.http[API], last, beside).http[PROXY] == last.http[PROXY]


def test_a_port_that_a_process_of_ours_still_holds_is_kept(taken: int) -> None:
    last = last_time(proxy=taken)
    assert choose(last.http[API], last, frozenset({taken})) == last
    assert choose(taken, None, frozenset({taken})).http[API] == taken


def test_the_api_has_the_port_that_was_asked_for_or_it_is_said_that_it_is_taken(taken: int) -> None:
    with pytest.raises(ConfigError, match=f"port {taken} of 127.0.0.1 is in use: choose another port with --port"):
        choose(taken, None, NOTHING)
