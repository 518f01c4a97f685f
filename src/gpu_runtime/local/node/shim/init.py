"""PID 1 of a container: starts its program, forwards signals to it, reaps what it leaves, and ends with it.

When it ends, the kernel ends every other process of the container's pid namespace. Without a pid namespace it reaps all
its descendants and ends them itself.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Sequence
from typing import NoReturn

from gpu_runtime.local.node.shim import program, root, terminal
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.held import CannotMount
from gpu_runtime.local.node.shim.shapes import Container, InitReport, Launch

GO = b"\0"  # sent by the shim when limits are in force; every other byte is a signal's number


def run(launch: Launch, shim: socket.socket) -> NoReturn:
    """Runs one container to its end; `shim` carries signals in and reports out, and its closing ends the container."""
    try:
        _run(launch, shim)
    except (CannotMount, program.CannotExecute) as error:
        _report(shim, {"failed": str(error)})
    except OSError as error:
        _report(shim, {"failed": f"unable to start container process: {error}"})
    except BaseException as error:
        _report(shim, {"failed": f"unable to start container process: {error!r}"})
    os._exit(0)


def _run(launch: Launch, shim: socket.socket) -> None:
    container, plain = launch.container, launch.sandbox["root"] == "machine"
    signal.set_wakeup_fd(-1)
    sys_.set_process_name("pod-init")
    if plain:
        sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
        _refuse_mounts(container)
    else:
        root.enter(launch)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    if shim.recv(1) != GO:
        return
    tty = container.get("tty", False)
    ours, theirs = os.openpty() if tty else (-1, -1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    streams = (theirs,) * 3 if tty else (launch.input if launch.input >= 0 else nothing, *launch.output)
    main = start(container, container["command"], streams, plain=plain, tty=tty)
    for descriptor in {*streams, *launch.output, nothing}:
        os.close(descriptor)
    if tty:
        socket.send_fds(shim, [json.dumps({"started": True}).encode() + b"\n"], [ours])
        os.close(ours)
    else:
        _report(shim, {"started": True})
    status = _supervise(main, shim, woken)
    if plain:
        end_descendants()
    if status is not None:
        _report(shim, {"status": status})


def _refuse_mounts(container: Container) -> None:
    for mount in container["mounts"]:
        raise CannotMount(f'failed to mount at "{mount["target"]}": this machine allows no mount namespaces')


def start(
    container: Container,
    command: list[str],
    streams: Sequence[int],
    groups: Sequence[int] = (),
    *,
    plain: bool,
    tty: bool,
) -> int:
    """The process id of `command` once it has been executed; CannotExecute with its reason otherwise.

    `groups` are files by which a process joins a cgroup.
    """
    failed, fail = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if plain:  # in a pid namespace they end with its init
                sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for group in groups:
                os.write(group, b"0")
            terminal.attach(container, streams, tty=tty)
            program.become(terminal.with_terminal(container, tty=tty), command)
        except program.CannotExecute as error:
            os.write(fail, str(error).encode())
        except BaseException as error:
            os.write(fail, f"{error!r}".encode())
        finally:
            os._exit(127)
    os.close(fail)
    with os.fdopen(failed, "rb") as reader:
        reason = reader.read()
    if reason:
        os.waitpid(child, 0)
        raise program.CannotExecute(f"unable to start container process: {reason.decode(errors='replace')}")
    return child


def attach_output(container: Container, output: tuple[int, int]) -> None:
    """Standard input from nothing, output into the pipes, which must be the user's own for /dev/stdout to be opened."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    for target, descriptor in enumerate(output, start=1):
        if container["user"]:
            os.fchown(descriptor, container["user"], -1)
        os.dup2(descriptor, target)


def _supervise(main: int, shim: socket.socket, woken: int) -> int | None:
    """The wait status of `main`; None when the shim is gone and everything has to end."""
    while True:
        ready, _, _ = select.select([shim.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if shim.fileno() in ready:
            signals = shim.recv(64)
            if not signals:
                return None
            for number in signals:
                _signal(main, number)
        status = reap(main)
        if status is not None:
            return status


def reap(main: int) -> int | None:
    """Reaps every child that has ended; returns the wait status of `main` if it was among them."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == main:
            ended = status


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def end_descendants() -> None:
    """Kills all children of this process, and the orphans that they leave to it."""
    while True:
        with open("/proc/thread-self/children") as children:
            left = children.read().split()
        for pid in left:
            _signal(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _report(shim: socket.socket, report: InitReport) -> None:
    try:
        shim.sendall(json.dumps(report).encode() + b"\n")
    except OSError:
        return  # the shim is gone, so nobody reads this
