"""Opens files and folders of a volume by path. No path and no link leads out of the volume.

The kernel never resolves a path of more than one name for us. Each name is opened relative to the folder before it and
without following links, so a folder that somebody replaces by a link during the walk is noticed at that name. Links are
resolved here: those that stay in the volume work, the others are refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.files import folders
from gpu_runtime.files.errors import FileNotServed, Forbidden, Incomplete

MOST_LINKS = 40
"""Links that one path may go through, as in the kernel."""
DEEPEST = 500
"""The most nested folders. Each of them is open while a path is resolved or an archive is made."""

# To walk through a folder, not to read its entries: it needs no permission to read.
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A name can become a FIFO after it was looked at: O_NONBLOCK, so that opening it does not wait for a writer.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# EINVAL: a link that was replaced by something else before it was read. ENXIO: a socket in place of a file.
_GONE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ESTALE, errno.EINVAL, errno.ENXIO}
)
_DENIED = frozenset({errno.EACCES, errno.EPERM})


@dataclass(frozen=True)
class Opened:
    """An open regular file or folder. Whoever opened it closes it."""

    fd: int
    info: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)

    def read(self, length: int, at: int) -> bytes:
        """Some bytes of the file from `at`: at least one, at most `length`."""
        piece = os.pread(self.fd, length, at)
        if not piece:
            raise Incomplete("the file became shorter while it was read")
        return piece

    def close(self) -> None:
        os.close(self.fd)


class Volume:
    """A folder with everything below it."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._root)

    def open(self, names: Sequence[bytes]) -> Opened:
        """The regular file or folder at this path. FileNotServed or Forbidden says why there is none."""
        path = _Path(self._root)
        try:
            return path.follow(names)
        except OSError as error:
            raise _refusal(error) from error
        finally:
            path.close()


class _Path:
    """The folders from the root of the volume to where the walk is now."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._folders: list[int] = []

    @property
    def _here(self) -> int:
        return self._folders[-1] if self._folders else self._root

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())

    def follow(self, names: Sequence[bytes]) -> Opened:
        ahead, links = list(reversed(names)), 0
        while ahead:
            name = ahead.pop()
            if name in {b"", b"."}:
                continue
            if name == b"..":
                self._up()
                continue
            mode = os.stat(name, dir_fd=self._here, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > MOST_LINKS:
                    raise FileNotServed(f"the path goes through more than {MOST_LINKS} links")
                ahead.extend(reversed(self._target(name)))
            elif stat.S_ISDIR(mode):
                self._down(name)
            elif not stat.S_ISREG(mode):
                raise Forbidden("this is a device, pipe or socket, not a file")
            elif ahead:
                raise FileNotServed("a part of the path is a file, not a folder")
            else:
                return open_file(name, self._here)
        return open_folder(b".", self._here)

    def _down(self, name: bytes) -> None:
        if len(self._folders) == DEEPEST:
            raise FileNotServed(f"the path is more than {DEEPEST} folders deep")
        self._folders.append(os.open(name, FOLDER, dir_fd=self._here))

    def _up(self) -> None:
        """Goes back to the folder that the walk came from. `..` is not resolved: the folder may have been moved."""
        if not self._folders:
            raise Forbidden("the path leads out of the volume")
        os.close(self._folders.pop())

    def _target(self, name: bytes) -> list[bytes]:
        target = os.readlink(name, dir_fd=self._here)
        if target.startswith(b"/"):
            raise Forbidden("the path goes through a link to an absolute path, which leads out of the volume")
        return target.split(b"/")


def open_file(name: bytes, folder: int) -> Opened:
    """Opens a regular file; FileNotServed if somebody replaced it by something else."""
    fd = os.open(name, FILE, dir_fd=folder)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise FileNotServed("it is no longer a file")
    return Opened(fd, info)


def open_folder(name: bytes, folder: int) -> Opened:
    """Opens a folder to read its entries."""
    fd = os.open(name, folders.FOLDER, dir_fd=folder)
    return Opened(fd, os.fstat(fd))


def _refusal(error: OSError) -> Exception:
    """FileNotServed or Forbidden if the path caused the error; otherwise the error itself."""
    if error.errno in _GONE:
        return FileNotServed("there is no such file or folder")
    if error.errno in _DENIED:
        return Forbidden("the permissions of the file or folder do not allow reading it")
    return error
