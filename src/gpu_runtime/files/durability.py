"""Waits until everything that was written to a file system has reached the disk."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)


def sync_file_system(folder: int) -> None:
    """For the file system of the open folder. Open the folder before the writes: then all write errors are reported."""
    if _libc.syncfs(folder) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
