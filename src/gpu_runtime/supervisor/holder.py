"""The lock of a data directory: at most one supervisor. It is a kernel lock, so a crash releases it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gpu_runtime.supervisor.identity import Identity


class Holder(msgspec.Struct, frozen=True):
    """The process that holds the lock of a data directory."""

    identity: Identity
    since: datetime


class Held(Exception):
    """Another process holds the lock of the data directory."""

    def __init__(self, holder: Holder | None) -> None:
        self.holder = holder
        super().__init__(
            f"process {holder.identity.pid}, since {holder.since.astimezone():%Y-%m-%d %H:%M:%S}"
            if holder is not None
            else "a process that has only begun"
        )


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Holds the lock inside the block. Raises `Held` when another process has the lock."""
    # Children must not inherit the lock: a child that outlives this process would keep the directory locked.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held(_read(path)) from None
        me = Identity.of(os.getpid())
        assert me is not None
        with suppress(OSError):  # the lock works without its content, and `down` must work on a full disk
            os.ftruncate(handle, 0)
            os.pwrite(handle, msgspec.json.encode(Holder(me, datetime.now(UTC))), 0)
        yield
        with suppress(OSError):
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(path: Path) -> Holder | None:
    """The process that holds the lock now, if any."""
    found = _read(path)
    return found if found is not None and found.identity.running() else None


def _read(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None
