"""Writes files atomically: after a crash or on a full disk a file has its old or its new content, never a part.

This module imports only the standard library, because the shims of pods load it.
"""

# The shims do not load pathlib.
# ruff: noqa: PTH105, PTH108, PTH118

from __future__ import annotations

import os
from contextlib import suppress


def write_private(path: str | os.PathLike[str], content: bytes, *, sync: bool = True) -> None:
    """Replaces the file atomically; only its owner may read it. On OSError the old file stays.

    Without `sync` a power cut may lose the file or leave it empty. Use that only for files that are useless after a
    reboot.
    """
    folder, name = os.path.split(os.fspath(path))
    draft = os.path.join(folder, f".{name}.draft")
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, content)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)  # a partial draft would take space on a full disk
        raise
    if sync:
        _sync_folder(folder or ".")


def write_all(descriptor: int, content: bytes, at: int | None = None) -> None:
    """Writes every byte. On a full disk one call writes a part without an error; only the next call fails."""
    done = 0
    while done < len(content):
        rest = content[done:]
        done += os.write(descriptor, rest) if at is None else os.pwrite(descriptor, rest, at + done)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
