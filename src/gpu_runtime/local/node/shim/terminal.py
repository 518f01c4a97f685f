"""The three streams of a program: pipes that are its user's own, or a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import termios
from collections.abc import Sequence

from gpu_runtime.local.node.shim.shapes import Container

TERMINAL = "xterm"


def attach(container: Container, streams: Sequence[int], *, tty: bool) -> None:
    """Call it in the process that becomes the program. The program's user must own the streams to open /dev/stdout."""
    if tty:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for target, descriptor in enumerate(streams):
        if container["user"]:
            with contextlib.suppress(OSError):  # /dev/null stays what it is
                os.fchown(descriptor, container["user"], -1)
        os.dup2(descriptor, target)


def with_terminal(container: Container, *, tty: bool) -> Container:
    """The container as a program with a terminal sees it."""
    changed = container.copy()
    if tty:
        changed["env"] = {"TERM": TERMINAL, **changed["env"]}
    return changed
