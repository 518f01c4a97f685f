"""The entries of a folder, a page at a time: a folder may hold millions."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

EntryType = Literal["file", "folder", "link", "other"]


class Entry(Struct, frozen=True):
    """One entry of a folder. Links are not followed."""

    name: bytes
    type: EntryType
    size: int
    modified: datetime | None
    target: bytes = b""


class Page(Struct, frozen=True):
    """Entries in the order of their names."""

    entries: list[Entry]
    last: bytes | None
    """The name after which the next page begins; None on the last page."""


def read_page(folder: int, after: bytes, limit: int) -> Page:
    """The first `limit` entries after the name `after`. Holds no more names than that in memory."""
    with os.scandir(folder) as found:
        names = (os.fsencode(each.name) for each in found)
        first = heapq.nsmallest(limit + 1, (name for name in names if name > after))
    # Decided by the names: if some entries vanished since, the next page must still be linked.
    return Page(list(_entries(folder, first[:limit])), first[limit - 1] if len(first) > limit else None)


def _entries(folder: int, names: list[bytes]) -> Iterator[Entry]:
    for name in names:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            target = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(info.st_mode) else b""
        except OSError:  # it vanished or was replaced since its name was read
            continue
        yield Entry(name, _type(info.st_mode), info.st_size, moment(info.st_mtime), target)


def _type(mode: int) -> EntryType:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def moment(seconds: float) -> datetime | None:
    """The time of a file, in whole seconds; None if it is out of the range of datetime."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        return None
