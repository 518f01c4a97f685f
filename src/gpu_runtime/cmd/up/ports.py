"""Which ports to use: those of the last time, else any that are free."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator

from gpu_runtime.cmd.up.layout import LOOPBACK, Ports
from gpu_runtime.config import ConfigError

# Below those that the kernel gives to outgoing connections: one found free here stays free until it is used.
ANY = range(20_000, 32_768)
BESIDE_API = {"proxy": 10}  # people see it in links: 8090 beside 8080


def choose(api: int, last: Ports | None, kept: frozenset[int]) -> Ports:
    """The ports of an installation; those in `kept` are held by processes of it that still run."""
    if not _usable(api, kept):
        raise ConfigError(f"port {api} of {LOOPBACK} is taken: give the API another with --port")
    chosen = {"api": api}
    for name in Ports.__struct_fields__[1:]:
        wanted = [getattr(last, name)] if last is not None else []
        if name in BESIDE_API:
            wanted.append(api + BESIDE_API[name])
        taken = frozenset(chosen.values())
        chosen[name] = next(port for port in _candidates(wanted) if port not in taken and _usable(port, kept))
    return Ports(**chosen)


def _candidates(wanted: Iterable[int]) -> Iterator[int]:
    yield from wanted
    # Two that start at the same moment do not look for the same ones.
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
