"""Which process listens on a port. A probe counts only when the expected process has answered it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LISTEN = "0A"


def listens(pid: int, port: int) -> bool:
    """Whether the process has a listening socket on this port."""
    return not _sockets_of(pid).isdisjoint(_listeners(port))


def _listeners(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *rest = line.split()
            if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                yield f"socket:[{rest[5]}]"


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        handles = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return found
    for handle in handles:
        with suppress(OSError):  # the process closed it meanwhile
            found.add(str(handle.readlink()))
    return found
