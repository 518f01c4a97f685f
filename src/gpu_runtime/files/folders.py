"""Folders, opened name by name: no path is too long, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpu_runtime.files.failure import FilesError, Parts, stopping_at

LOST_AND_FOUND = "lost+found"
"""The folder that belongs to the file system of a volume. It is neither copied nor cleared."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder(NamedTuple):
    """An open folder below a root, and the names in it."""

    parts: Parts
    fd: int
    names: list[str]


@contextmanager
def root_folder(path: str) -> Iterator[int]:
    """The folder at `path`. A link to a folder is followed here, and only here."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FilesError(f"{path!r} is not a folder that can be opened: {error.strerror}") from error
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def folder_below(root: int, parts: Parts) -> Iterator[int]:
    """The folder at `parts` below the root."""
    folder = os.open(".", FOLDER, dir_fd=root)
    try:
        for name in parts:
            inner = os.open(name, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def folders_of(root: int) -> Iterator[Folder]:
    """The root and all folders below it, each before those inside it. Each is open until the next one is asked for."""
    pending: list[Parts] = [()]
    while pending:
        parts = pending.pop()
        with stopping_at("read folder", parts), folder_below(root, parts) as fd:
            names, inner = _list(fd, is_root=not parts)
            yield Folder(parts, fd, names)
        pending.extend((*parts, name) for name in reversed(inner))


def _list(folder: int, *, is_root: bool) -> tuple[list[str], list[str]]:
    """All names, and the names of folders. Sorted, so that two runs over one tree report the same."""
    names, inner = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_root and is_folder and entry.name == LOST_AND_FOUND:
                continue
            names.append(entry.name)
            if is_folder:
                inner.append(entry.name)
    return sorted(names), sorted(inner)


def names_in(root: int) -> list[str]:
    """The names in a root folder, without its lost+found."""
    return _list(root, is_root=True)[0]
