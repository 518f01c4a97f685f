"""Which ports to use: those of the last time, else any that are free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator

from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.errors import ConfigError

# Below the ports that the kernel gives to outgoing connections, so that a port found free stays free until it is used.
ANY = range(20_000, 32_768)


def choose(first: int, processes: Iterable[Process], last: Ports | None, kept: frozenset[int]) -> Ports:
    """The ports of an installation, of which the API has `first`; those in `kept` are held by its own processes."""
    if not _usable(first, kept):
        raise ConfigError(f"port {first} of {LOOPBACK} is taken: give the API another with --port")
    last = last or Ports(kubernetes=0, http={}, health={})
    chosen = {first}

    def take(*wanted: int | None) -> int:
        found = next(port for port in _candidates(wanted) if port not in chosen and _usable(port, kept))
        chosen.add(found)
        return found

    kubernetes, http, health = take(last.kubernetes), {}, {}
    for process in processes:
        offset = process.up.port if process.up is not None else None
        if process.http and offset == 0:
            http[process.name] = first
        elif process.http:
            http[process.name] = take(last.http.get(process.name), first + offset if offset is not None else None)
        health[process.name] = take(last.health.get(process.name))
    return Ports(kubernetes=kubernetes, http=http, health=health)


def _candidates(wanted: Iterable[int | None]) -> Iterator[int]:
    yield from (port for port in wanted if port)
    # In random order, so that two `up` that start at the same time do not choose the same ports.
    yield from random.sample(ANY, len(ANY))


def _usable(port: int, kept: frozenset[int]) -> bool:
    if port in kept:
        return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: they can bind a port in TIME_WAIT
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True
