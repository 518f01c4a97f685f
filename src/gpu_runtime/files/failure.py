"""Errors of the copy and the clear command: one line for people, which names the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

Parts = tuple[str, ...]
"""A path below a folder, name by name. Bytes that are not UTF-8 are surrogates, as os.fsdecode makes them."""

LONGEST_PATH = 400  # characters of a path in a message: the message must fit into a pod's termination message
FULL = (errno.ENOSPC, errno.EDQUOT)


class FilesError(Exception):
    """The work stopped, and the message says at which file and why."""


class Full(FilesError):
    """The target has no space left."""


@contextmanager
def stopping_at(action: str, parts: Parts) -> Iterator[None]:
    """Turns an OSError of the block into a FilesError that names the file and the action."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        kind = Full if error.errno in FULL else FilesError
        raise kind(f"cannot {action} {printable(parts)}: {reason}") from error


def printable(parts: Parts) -> str:
    """The path on one line, whatever is in its names."""
    text = repr("/".join(parts) or ".")
    if len(text) <= LONGEST_PATH:
        return text
    half = (LONGEST_PATH - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
