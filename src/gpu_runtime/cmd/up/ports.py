"""Chooses ports: those of the last start if they are free, else any free ports."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator

from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.errors import ConfigError

# Below the kernel's ephemeral ports: no outgoing connection takes a port between this check and its use.
ANY = range(20_000, 32_768)


def choose(first: int, processes: Iterable[Process], last: Ports | None, kept: frozenset[int]) -> Ports:
    """The ports of an installation. The API gets `first`. Ports in `kept` are in use by its own processes: usable."""
    if not _usable(first, kept):
        raise ConfigError(f"port {first} of {LOOPBACK} is in use: choose another port with --port")
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
    broker, broker_health = take(last.broker), take(last.brokerHealth)
    return Ports(kubernetes=kubernetes, http=http, health=health, broker=broker, brokerHealth=broker_health)


def _candidates(wanted: Iterable[int | None]) -> Iterator[int]:
    yield from (port for port in wanted if port)
    # Random order: two `up` that start at the same time do not choose the same ports.
    yield from random.sample(ANY, len(ANY))


def _usable(port: int, kept: frozenset[int]) -> bool:
    if port in kept:
        return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is usable
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True
