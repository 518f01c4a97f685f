"""Which ports to use: those of the last time, else the usual ones, else any that is free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.config import ConfigError

# Below those that the kernel gives to outgoing connections: one found free here stays free until it is used.
ANY = range(20_000, 32_768)
USUAL = {"kubernetes": 6443, "controllerManagerHealth": 8081, "runtimeApiHealth": 8082, "proxyHealth": 8083}
PROXY_FROM_API = 10  # 8090 beside 8080


def choose(api: int, last: Ports | None, kept: frozenset[int]) -> Ports:
    """The ports of an installation; those in `kept` are held by processes of it that still run."""
    if not _usable(api, kept):
        raise ConfigError(f"port {api} of {LOOPBACK} is taken: give the API another with --port")
    usual = {"proxy": api + PROXY_FROM_API, **USUAL}
    chosen = {"api": api}
    for name in Ports.__struct_fields__[1:]:
        before = getattr(last, name) if last is not None else None
        taken = frozenset(chosen.values())
        for port in _candidates(before, usual[name]):
            if port not in taken and _usable(port, kept):
                chosen[name] = port
                break
    return Ports(**chosen)


def _candidates(before: int | None, usual: int) -> Iterator[int]:
    if before is not None:
        yield before
    yield usual
    yield from random.sample(ANY, len(ANY))


def _usable(port: int, kept: frozenset[int]) -> bool:
    if port in kept:
        return True
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port in TIME_WAIT is free
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True
