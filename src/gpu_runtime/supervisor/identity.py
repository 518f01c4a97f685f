"""Which process is meant: a process id alone is used again, together with its start it never is."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from msgspec import Struct

STARTED_FIELD = 19  # of /proc/PID/stat, counted from the state, which follows the name in brackets
ENDED = ("Z", "X")


class Identity(Struct, frozen=True):
    """One process of one boot of this machine."""

    pid: int
    started: str
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this id now; None when there is none, or only its exit status is left."""
        try:
            # The name in brackets may hold anything, brackets and spaces too.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in ENDED else cls(pid, fields[STARTED_FIELD], _boot())

    def running(self) -> bool:
        return self == Identity.of(self.pid)

    def open(self) -> int | None:
        """A handle of the process, which can never come to mean another one; None when it has ended."""
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
