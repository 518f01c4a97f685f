"""Empties a folder. The folder itself and its lost+found stay."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import count

from gpu_runtime.files.failure import Parts, stopping_at
from gpu_runtime.files.folders import FOLDER, names_in, root_folder

DEEPEST = 64  # folders that are open at once
MOVED = ".to-be-cleared-"


def clear(path: str) -> int:
    """Removes everything below the folder at `path`, and returns the number of entries. Follows no link."""
    with root_folder(path) as root:
        return clear_root(root)


def clear_root(root: int) -> int:
    """Removes everything below an open folder.

    A folder that is nested too deep is moved to the top and removed in a later pass, so that memory and the number of
    open folders do not grow with the depth. After an interruption, the next run removes the rest.
    """
    clearing = _Clearing(root)
    while names := names_in(root):
        for name in names:
            clearing.remove(root, (name,))
    return clearing.removed


class _Clearing:
    def __init__(self, root: int) -> None:
        self.removed = 0
        self._root = root
        self._numbers = count()

    def remove(self, parent: int, parts: Parts) -> None:
        """Removes the entry at the path `parts`, which is in the open folder `parent`."""
        name = parts[-1]
        with stopping_at("remove", parts), suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
                os.unlink(name, dir_fd=parent)
            elif len(parts) > DEEPEST:
                self._move_up(parent, name)
                return
            else:
                self._empty(parent, parts)
                os.rmdir(name, dir_fd=parent)
            self.removed += 1

    def _empty(self, parent: int, parts: Parts) -> None:
        folder = _open_for_removal(parent, parts[-1])
        try:
            for name in os.listdir(folder):  # noqa: PTH208
                self.remove(folder, (*parts, name))
        finally:
            os.close(folder)

    def _move_up(self, parent: int, name: str) -> None:
        os.close(_open_for_removal(parent, name))  # a folder must be writable to be moved
        while True:
            place = f"{MOVED}{next(self._numbers)}"
            try:
                os.rename(name, place, src_dir_fd=parent, dst_dir_fd=self._root)
                return
            except OSError as error:  # the name is taken by a file, or by a folder that an earlier run moved
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise


def _open_for_removal(parent: int, name: str) -> int:
    """The folder, with the permissions that its owner needs to empty it."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(path).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            with suppress(PermissionError):  # another user owns it: only root can go on, and needs no chmod
                os.chmod(f"/proc/self/fd/{path}", stat.S_IRWXU)  # noqa: PTH101
        return os.open(".", FOLDER, dir_fd=path)
    finally:
        os.close(path)
