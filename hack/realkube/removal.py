"""Taking a cluster away, whatever state it is in."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from realkube import cgroups
from realkube.process import run, wait_until
from realkube.site import Site


def remove(site: Site) -> None:
    """End the cluster's processes, and remove the few things that do not end with them."""
    for process_id in processes(site):
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    wait_until(lambda: not processes(site), "the cluster's processes end")
    run("ip", "link", "delete", site.link)  # the kernel does so too, in its own time
    cgroups.remove(site.cgroup)
    shutil.rmtree(site.state, ignore_errors=True)
    with suppress(OSError):
        site.state.parent.rmdir()


def processes(site: Site) -> list[int]:
    """The cluster's processes, known by the mark in their environment: no record that could be lost or be wrong.

    Containers do not carry it; the kernel ends them with the first process of their PID namespace, which does.
    """
    mark = site.mark.encode()
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if mark in environment(folder)]


def environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # it has just ended
