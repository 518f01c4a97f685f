"""Commands that a person runs in a running container (`kubectl exec`), and connections into the pod.

The client sends the ends of its own pipes and of a control socket, so no data passes through the shim: what the client
does not read fills a pipe, and the command waits. When the client closes the control socket, the command and all that
it started are killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpu_runtime.local.node.shim import keeper
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.container import LOCK, Run, close_all_but
from gpu_runtime.local.node.shim.copies import Reader

SOCKET = "shells.sock"
LARGEST_REQUEST = 1 << 18
DESCRIPTORS = 4  # input, output, errors, control
NOT_RUNNING = "not running"
"""Why a command was refused, where the reason is the container and not the command."""

Runs = Mapping[tuple[str, int], Run]


class Pending(NamedTuple):
    """A connection into the pod that is being made, and the control socket that gets the result."""

    connection: socket.socket
    control: socket.socket


class Shells:
    """Serves the clients (askers) of one pod; called by the shim's poll loop."""

    def __init__(self, *, isolated: bool) -> None:
        """Listens in the working directory."""
        self._isolated = isolated
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(SOCKET)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._life, self._alive = os.pipe2(os.O_CLOEXEC)  # keepers see the shim's end as the closing of this pipe
        self._askers: dict[int, socket.socket] = {}
        self._pending: dict[int, Pending] = {}
        self._keepers: dict[int, Run] = {}
        self._readers: dict[Reader, Run] = {}

    def interests(self) -> dict[int, int]:
        watched = dict.fromkeys([self._listener.fileno(), *self._askers], select.POLLIN)
        for reader in self._readers:
            watched |= reader.interests()
        return watched | dict.fromkeys(self._pending, select.POLLOUT)

    def deadlines(self) -> list[float]:
        """The times at which readers that have stopped reading are dropped."""
        return [reader.deadline for reader in self._readers if reader.deadline is not None]

    def ready(self, descriptor: int, runs: Runs) -> None:
        if descriptor in self._pending:
            self._connected(self._pending.pop(descriptor))
        elif descriptor in self._askers:
            self._receive(self._askers.pop(descriptor), runs)
        elif reader := next((each for each in self._readers if descriptor in each.interests()), None):
            reader.ready(descriptor)
        else:
            with contextlib.suppress(OSError):
                asker, _ = self._listener.accept()
                asker.setblocking(False)
                self._askers[asker.fileno()] = asker

    def tick(self) -> None:
        """Reaps keepers, and ends those whose container has ended: without a pid namespace nothing else would."""
        for pid, run in list(self._keepers.items()):
            if self._has_ended(pid):
                del self._keepers[pid]
                run.keepers.discard(pid)
            elif run.state_is_final:
                os.kill(pid, signal.SIGTERM)
        for reader, run in list(self._readers.items()):
            if reader.input_ended and run.container.get("stdinOnce"):
                run.end_input()
            late = reader.deadline is not None and time.monotonic() > reader.deadline
            if reader.gone or late or (run.state_is_final and not reader.behind):
                run.readers.remove(reader)
                del self._readers[reader]
                reader.close()

    def _has_ended(self, pid: int) -> bool:
        try:
            return os.waitpid(pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # `Run` has reaped it already
            return True

    def _receive(self, asker: socket.socket, runs: Runs) -> None:
        """Receives and handles one request; every answer goes to its control socket."""
        with asker:
            try:
                message, given = keeper.receive(asker, LARGEST_REQUEST, DESCRIPTORS)
            except OSError:
                return
        if not given:
            return
        control = socket.socket(fileno=given[-1])
        try:
            self._handle(json.loads(message), given[:-1], control, runs)
        except (OSError, ValueError, KeyError, TypeError) as error:
            keeper.send_report(control, {"failed": str(error) or repr(error)})
        finally:
            for descriptor in given[:-1]:
                os.close(descriptor)
            if control not in (each.control for each in self._pending.values()):
                control.close()

    def _handle(self, request: dict[str, Any], streams: list[int], control: socket.socket, runs: Runs) -> None:
        if request["do"] == "connect":
            self._connect(int(request["port"]), control)
            return
        run = runs.get((request["container"], request["attempt"]))
        if run is None or run.state is None or run.state_is_final or not run.init_pid:
            keeper.send_report(control, {"failed": NOT_RUNNING})
            return
        if request["do"] == "attach":
            reader = Reader(
                [os.dup(stream) for stream in streams],
                socket.socket(fileno=os.dup(control.fileno())),
                speaks=bool(request["stdin"]),
            )
            self._readers[reader] = run
            run.readers.append(reader)
            keeper.send_report(control, {"started": True}, *([run.input] if run.input >= 0 else []))
            return
        self._start(run, keeper.Order(run.container, request["command"], bool(request["tty"]), streams), control)

    def _start(self, run: Run, order: keeper.Order, control: socket.socket) -> None:
        pid_reader, pid_writer = os.pipe2(os.O_CLOEXEC)
        starter = os.fork()
        if starter == 0:
            close_all_but({*order.streams, control.fileno(), pid_writer, self._life, LOCK})
            _enter(run, order, control, pid_writer, self._life, isolated=self._isolated)
        os.close(pid_writer)
        os.waitpid(starter, 0)
        pid = int(os.read(pid_reader, 32) or b"0")
        os.close(pid_reader)
        if pid:
            self._keepers[pid] = run
            if self._isolated:
                run.keepers.add(pid)

    def _connect(self, port: int, control: socket.socket) -> None:
        """Begins a connection to the pod's own loopback; the shim is in the pod's network namespace."""
        connection = socket.socket()
        connection.setblocking(False)
        pending = Pending(connection, control)
        try:
            connection.connect(("127.0.0.1", port))
        except BlockingIOError:
            self._pending[connection.fileno()] = pending
        except (OSError, OverflowError) as error:
            connection.close()
            raise OSError(_reason(error)) from error
        else:
            self._connected(pending)

    def _connected(self, pending: Pending) -> None:
        connection, control = pending
        with connection, control:
            number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                keeper.send_report(control, {"failed": os.strerror(number).lower()})
            else:
                keeper.send_report(control, {"started": True}, connection.fileno())


def _reason(error: Exception) -> str:
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)


def _enter(run: Run, order: keeper.Order, control: socket.socket, pid_pipe: int, life: int, *, isolated: bool) -> None:
    """In a process of its own: enters the container's namespaces, leaves the keeper there, and ends."""
    try:
        groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order.container["cgroups"]]
        if isolated:
            spaces = {
                kind: os.open(f"/proc/{run.init_pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("pid", "mnt")
            }
            sys_.setns(spaces["pid"], sys_.CLONE_NEWPID)
            sys_.setns(spaces["mnt"], sys_.CLONE_NEWNS)
            for space in spaces.values():
                os.close(space)
        pid = os.fork()
        if pid == 0:
            os.close(pid_pipe)
            keeper.keep(order, control, groups, life, plain=not isolated)
        os.write(pid_pipe, str(pid).encode())
    except OSError as error:
        # A container that is ending has no namespaces any more (ENOENT), or lets nobody in (ENOMEM).
        ending = error.errno in (errno.ENOENT, errno.ENOMEM)
        keeper.send_report(control, {"failed": NOT_RUNNING if ending else f"cannot enter the container: {error}"})
    finally:
        os._exit(0)
