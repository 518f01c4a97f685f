"""The cgroup that every container of a cluster lies under."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

from realkube.process import wait_until


def hierarchies() -> list[Path]:
    """The root of each cgroup hierarchy: one on a current machine, one a controller on an older one."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(target) for _, target, kind, *_ in mounts if kind in ("cgroup", "cgroup2")]


def make(name: str) -> None:
    """Make the cgroup everywhere: the kubelet wants its root to be there."""
    for hierarchy in hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)


def remove(name: str) -> None:
    """Remove the cgroup everywhere with those under it, as soon as the last of their processes is gone."""
    for hierarchy in hierarchies():
        wait_until(partial(try_to_remove, hierarchy / name), f"{hierarchy / name} is empty")


def try_to_remove(path: Path) -> bool:
    """Whether it is gone: the kernel refuses while a process in it is ending."""
    try:
        for folder, _, _ in os.walk(path, topdown=False):
            Path(folder).rmdir()
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOENT):
            raise
    return not path.exists()
