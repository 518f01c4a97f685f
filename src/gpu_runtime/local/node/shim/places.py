"""Places below a root, reached by descriptors: no `..`, no symbolic link and no file of /proc leads out of the root.

A path comes from a pod's spec, and what lies on its way from the pod's volumes, which other containers may be changing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpu_runtime.local.node.shim import syscalls as sys_


@contextmanager
def opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def named(descriptor: int) -> str:
    """A path to exactly what `descriptor` is open on, for calls that take no descriptor."""
    return f"/proc/self/fd/{descriptor}"


def existing(root: int, path: str) -> int | None:
    """A descriptor of what is at `path`; None where nothing is, or nothing that we, and so the pod, could reach."""
    try:
        return sys_.open_inside(root, path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def directory(root: int, path: str) -> int:
    """A descriptor of the directory at `path`, made with its parents where it is missing."""
    path = os.path.normpath(path)
    try:
        return sys_.open_inside(root, path, os.O_DIRECTORY)
    except FileNotFoundError:
        parent, name = os.path.split(path)
        if not name:
            raise
    with opened(directory(root, parent)) as above:
        # It exists: a container with the same volume made it, or it is a dangling link, which the next call refuses.
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=above)
        return sys_.open_inside(root, path, os.O_DIRECTORY)


def file(root: int, path: str) -> int:
    """A descriptor of the file at `path`, made empty with its parents where it is missing."""
    found = existing(root, path)
    if found is not None:
        return found
    parent, name = os.path.split(os.path.normpath(path))
    with opened(directory(root, parent)) as above:
        with suppress(FileExistsError):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=above))
        return sys_.open_inside(root, path)


def refuse_proc(root: int, place: int) -> None:
    """Refuses a place inside /proc, which shows the kernel and this process."""
    with opened(sys_.open_inside(root, "/proc")) as proc:
        if os.fstat(place).st_dev == os.fstat(proc).st_dev:
            raise OSError(errno.EPERM, "it is inside /proc")
