"""A folder as a tar archive, made piece by piece: memory use does not grow with the folder.

Links are stored as links and never followed. Devices, pipes and sockets are left out. The format is GNU's: it keeps
names of any bytes and files of any size, and every tar reads it.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import NamedTuple

from gpu_runtime.files.errors import FileNotServed, Incomplete
from gpu_runtime.files.volume import DEEPEST, Opened, open_file, open_folder

PIECE = 256 * 1024
_END = bytes(2 * tarfile.BLOCKSIZE)


class _Level(NamedTuple):
    """A folder on the path to the current one. It stays open, so moving it does not matter."""

    folder: Opened
    path: bytes
    names: Generator[bytes]

    def close(self) -> None:
        self.names.close()
        self.folder.close()


def pieces(folder: Opened, name: bytes) -> Generator[bytes]:
    """The archive of the folder, under the top folder `name`, in pieces of about 256 KiB."""
    gathered = bytearray()
    for part in _parts(folder, name):
        gathered += part
        if len(gathered) >= PIECE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered) + _END


def _parts(top: Opened, name: bytes) -> Iterator[bytes]:
    """Headers and contents, depth first."""
    levels = [_Level(open_folder(b".", top.fd), name, _names(top))]
    try:
        yield _header(name, top.info)
        while levels:
            level = levels[-1]
            child = next(level.names, None)
            if child is None:
                levels.pop().close()
                continue
            path = level.path + b"/" + child
            with suppress(FileNotFoundError, FileNotServed):  # it vanished since its name was read
                info = os.stat(child, dir_fd=level.folder.fd, follow_symlinks=False)
                if stat.S_ISLNK(info.st_mode):
                    yield _header(path, info, os.readlink(child, dir_fd=level.folder.fd))
                elif stat.S_ISREG(info.st_mode):
                    yield from _file(path, open_file(child, level.folder.fd))
                elif stat.S_ISDIR(info.st_mode):
                    if len(levels) > DEEPEST:
                        raise Incomplete(f"folders are more than {DEEPEST} deep")
                    below = open_folder(child, level.folder.fd)
                    levels.append(_Level(below, path, _names(below)))
                    yield _header(path, below.info)
    finally:
        for level in levels:
            level.close()


def _names(folder: Opened) -> Generator[bytes]:
    with os.scandir(folder.fd) as found:
        for each in found:
            yield os.fsencode(each.name)


def _file(path: bytes, file: Opened) -> Iterator[bytes]:
    try:
        size = file.info.st_size
        yield _header(path, file.info)
        at = 0
        while at < size:
            part = file.read(min(PIECE, size - at), at)
            at += len(part)
            yield part
        yield bytes(-size % tarfile.BLOCKSIZE)
    finally:
        file.close()


def _header(path: bytes, info: os.stat_result, target: bytes = b"") -> bytes:
    header = tarfile.TarInfo(os.fsdecode(path))
    header.mode = stat.S_IMODE(info.st_mode)
    header.uid, header.gid = info.st_uid, info.st_gid
    header.mtime = int(info.st_mtime)
    if stat.S_ISREG(info.st_mode):
        header.size = info.st_size
    elif stat.S_ISDIR(info.st_mode):
        header.type = tarfile.DIRTYPE
    else:
        header.type, header.linkname = tarfile.SYMTYPE, os.fsdecode(target)
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
