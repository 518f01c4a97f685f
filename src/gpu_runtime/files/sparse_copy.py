"""Copies the content of a regular file. Holes stay holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

CHUNK = 16 * 2**20  # bytes that the kernel copies at a time: progress is reported in between
BUFFER = 2**20  # bytes that pass through memory at a time
CANNOT = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""Errors that mean that the kernel cannot copy this way, not that a file cannot be read."""

Copy = Callable[[int, int, int, int], int]


class Shorter(Exception):
    """The file became shorter during the copy."""


def copy_content(source: int, target: int, size: int, advanced: Callable[[int], None]) -> None:
    """Copies `size` bytes of `source` into the empty `target`. Calls `advanced` with the bytes of each step."""
    os.ftruncate(target, size)  # the file may end with a hole
    position = 0
    for start, end in data_ranges(source, size):
        advanced(start - position)
        _copy_range(source, target, start, end, advanced)
        position = end
    advanced(size - position)


def data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of the file that are not holes, as start and end."""
    if os.fstat(file).st_blocks * 512 >= size:  # no holes: saves two calls a file
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            if error.errno not in CANNOT:
                raise
            yield end, size
            return
        if start >= size:
            return
        end = min(size, os.lseek(file, start, os.SEEK_HOLE))
        yield start, end


def _copy_range(source: int, target: int, start: int, end: int, advanced: Callable[[int], None]) -> None:
    ways = iter(WAYS)
    way, position = next(ways), start
    while position < end:
        try:
            count = way(source, target, position, min(CHUNK, end - position))
        except OSError as error:
            if error.errno not in CANNOT or way is _through_memory:
                raise
            count = 0
        if count:
            position += count
            advanced(count)
        elif way is _through_memory:
            raise Shorter
        else:  # some kernels answer 0 where they cannot copy
            way = next(ways)


def _in_kernel(source: int, target: int, position: int, count: int) -> int:
    return os.copy_file_range(source, target, count, position, position)


def _by_sendfile(source: int, target: int, position: int, count: int) -> int:
    os.lseek(target, position, os.SEEK_SET)
    return os.sendfile(target, source, position, count)


def _through_memory(source: int, target: int, position: int, count: int) -> int:
    return os.pwrite(target, os.pread(source, min(BUFFER, count), position), position)


WAYS: tuple[Copy, ...] = (_in_kernel, _by_sendfile, _through_memory)
