"""Becomes an ordinary user, who is shown directories of root's that nobody else may look at, and executes a command.

The only argument is an `Order` as JSON.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import msgspec

from gpu_runtime.local.node.shim import syscalls as sys_


class Order(msgspec.Struct):
    user: int
    shown: list[str]
    command: list[str]
    environment: dict[str, str]


def closed(directory: Path) -> Path | None:
    """The first of the directories on the way that others may not pass."""
    way = [*reversed(directory.parents), directory]
    return next((each for each in way if not each.stat().st_mode & stat.S_IXOTH), None)


def show(directories: list[Path]) -> None:
    """Covers what is closed by something open, and puts what is to be seen back in its place; for us alone."""
    sys_.unshare(sys_.CLONE_NEWNS)
    sys_.mount("none", "/", flags=sys_.MS_REC | sys_.MS_PRIVATE)
    barriers = {each: barrier for each in directories if (barrier := closed(each))}
    handles = {each: os.open(each, os.O_PATH) for each in barriers}
    for barrier in set(barriers.values()):
        sys_.mount("tmpfs", str(barrier), "tmpfs", data="mode=755")
    for each, handle in handles.items():
        each.mkdir(parents=True, exist_ok=True)
        sys_.mount(f"/proc/self/fd/{handle}", str(each), flags=sys_.MS_BIND | sys_.MS_REC)
        os.close(handle)


def main(order: Order) -> None:
    show([Path(each) for each in order.shown])
    os.setgroups([])
    os.setgid(order.user)
    os.setuid(order.user)
    os.execve(order.command[0], order.command, order.environment)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Order))
