"""Identifies a process. The kernel reuses process ids, but never the same id with the same start time and boot."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from msgspec import Struct

STARTED_FIELD = 19  # index in /proc/PID/stat, counted from the state field after the name in brackets
ENDED = ("Z", "X")


class Identity(Struct, frozen=True):
    """One process: its id, its start time and the boot of this machine."""

    pid: int
    started: str
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this id now; None when there is none or it is a zombie."""
        try:
            # The name in brackets may contain brackets and spaces, so split after the last bracket.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in ENDED else cls(pid, fields[STARTED_FIELD], _boot())

    def running(self) -> bool:
        return self == Identity.of(self.pid)

    def open(self) -> int | None:
        """A pidfd of the process, which never refers to another process; None when the process has ended."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return None
        if self.running():
            return handle
        os.close(handle)
        return None


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
