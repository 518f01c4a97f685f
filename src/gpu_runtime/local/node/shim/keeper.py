"""Runs one command in a container: starts it, reports how it ended, and kills all of it when the client goes.

It is the reaper of everything that the command starts, so a process that changed its session is found too. It runs in
the container's pid namespace but not under its limits, which are the command's.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from typing import NamedTuple, NoReturn

from gpu_runtime.local.node.shim import init, program
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.shapes import Container, InitReport

PR_SET_DUMPABLE = 4


class Order(NamedTuple):
    """A command in a container; `streams` are its input, output and errors, or nothing where it gets a terminal."""

    container: Container
    command: list[str]
    tty: bool
    streams: list[int]


def send_report(control: socket.socket, report: InitReport, *descriptors: int) -> None:
    try:
        socket.send_fds(control, [json.dumps(report).encode()], descriptors, socket.MSG_NOSIGNAL)
    except OSError:
        return  # the client has gone


def receive(sender: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """One message with the descriptors that came with it, which no program executed later may inherit.

    Python's own recv_fds leaves them inheritable: a command would hold its own control socket open.
    """
    message, descriptors, _, _ = socket.recv_fds(sender, size, most)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, list(descriptors)


def keep(order: Order, control: socket.socket, groups: list[int], life: int, *, plain: bool) -> NoReturn:
    """Runs one command to its end; the closing of `control` or of `life`, and SIGTERM, end it and all it started."""
    try:
        _keep(order, control, groups, life, plain=plain)
    except program.CannotExecute as error:
        send_report(control, {"failed": str(error)})
    except BaseException as error:
        send_report(control, {"failed": f"unable to start container process: {error!r}"})
    os._exit(0)


def _keep(order: Order, control: socket.socket, groups: list[int], life: int, *, plain: bool) -> None:
    os.setsid()
    sys_.set_process_name("pod-exec")
    sys_.prctl(PR_SET_DUMPABLE, 0)  # the container's root may not look into a process that has more rights than it
    sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    unwanted: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: unwanted.append(1))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    ends, streams = _streams(order)
    child = init.start(order.container, order.command, streams, groups, plain=plain, tty=order.tty)
    for descriptor in {*streams, *order.streams, *groups}:
        os.close(descriptor)
    send_report(control, {"started": True}, *ends)
    for descriptor in ends:
        os.close(descriptor)
    status = _wait(child, [control.fileno(), life], woken, unwanted)
    if status is None or plain:  # in a pid namespace, the command's background processes run on in the container
        init.end_descendants()
    if status is not None:
        send_report(control, {"status": status})


def _streams(order: Order) -> tuple[list[int], list[int]]:
    """The asker's end of the command's terminal, if it is to have one, and the three streams of the command."""
    if not order.tty:
        return [], order.streams
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise program.CannotExecute(f"open /dev/ptmx: {error.strerror}") from error
    return [ours], [theirs] * 3


def _wait(child: int, wanted: list[int], woken: int, unwanted: list[int]) -> int | None:
    """The wait status of `child`; None when one of `wanted` has closed, or `unwanted` is not empty."""
    closings, anything = select.poll(), select.poll()
    for descriptor in wanted:
        closings.register(descriptor, select.POLLIN)
    for descriptor in (*wanted, woken):
        anything.register(descriptor, select.POLLIN)
    while True:
        if woken in dict(anything.poll()):
            os.read(woken, 4096)
        status = init.reap(child)
        # Check after reaping: a client that goes hangs up the terminal, and the command may end by that before
        # this process has seen that the client is gone.
        if unwanted or closings.poll(0):
            return None
        if status is not None:
            return status
