"""One run of one container as the shim sees it: its init, its output, and its state on disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable

from gpu_runtime.local.node.shim import documents, init, keeper, program
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.copies import Reader
from gpu_runtime.local.node.shim.logs import LogFile, Stream
from gpu_runtime.local.node.shim.shapes import Container, ContainerState, InitReport, Launch, Sandbox

LOCK = 3  # the descriptor of the pod's lock, in the shim and in every init
TERMINATION_BYTES = 4096
START_ERROR_CODE = 128
KILL_PATIENCE = 2.0  # from asking the init to kill the program to killing the init itself


class Run:
    """A container that was started. Its `state` is on disk before the agent gets it."""

    def __init__(self, sandbox: Sandbox, pod: str, container: Container, changed: Callable[[Run], None]) -> None:
        self.container, self._changed = container, changed
        self.name, self.attempt = container["name"], container["attempt"]
        self.directory = os.path.join(pod, "containers", self.name, str(self.attempt))
        self.state: ContainerState | None = None
        self.kill_at: float | None = None
        self.readers: list[Reader] = []
        self.keepers: set[int] = set()  # our children in the container's pid namespace beside its init
        self._status: int | None = None
        self._failure = ""
        self._started = 0.0
        self._oom_kills = self._count_oom_kills()
        path = os.path.join(pod, "logs", self.name, f"{self.attempt}.log")
        self._log = LogFile(path, container["logBytes"], container["logFiles"])
        self._launch(sandbox, pod)

    def _launch(self, sandbox: Sandbox, pod: str) -> None:
        ours, theirs = socket.socketpair()
        pid_reader, pid_writer = os.pipe2(os.O_CLOEXEC)
        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        fed, self.input = (
            os.pipe2(os.O_CLOEXEC) if self.container.get("stdin") and not self.container.get("tty") else (-1, -1)
        )
        in_memory = os.path.join(pod, "scratch", f"{self.name}-{self.attempt}")
        layer = in_memory if sandbox["scratch"] == "memory" else os.path.join(self.directory, "layer")
        os.makedirs(layer, exist_ok=True)
        starter = os.fork()
        if starter == 0:
            close_all_but({theirs.fileno(), out[1], err[1], fed, pid_writer, LOCK})
            _start_init(Launch(sandbox, self.container, pod, layer, (out[1], err[1]), fed), theirs, pid_writer)
        theirs.close()
        for descriptor in (out[1], err[1], pid_writer, fed):
            if descriptor >= 0:
                os.close(descriptor)
        os.waitpid(starter, 0)
        self.init_pid = int(os.read(pid_reader, 32) or b"0")
        os.close(pid_reader)
        # Joining takes the kernel 10 ms a cgroup: it happens while the init prepares the file system, which then waits.
        # An init that has ended already reports the reason.
        with contextlib.suppress(ProcessLookupError, BrokenPipeError):
            if self.init_pid:
                program.join_cgroups(self.container["cgroups"], self.init_pid)
            ours.send(init.GO)
        self.control = ours
        self.control.setblocking(False)
        self._incomplete = b""
        self.streams = {out[0]: Stream("stdout", self._log), err[0]: Stream("stderr", self._log)}

    @property
    def open_descriptors(self) -> list[int]:
        """What the shim has to watch: the init's reports and the output that is still open."""
        return [*([self.control.fileno()] if self.control.fileno() >= 0 else []), *self.streams]

    @property
    def wanted_descriptors(self) -> list[int]:
        """The descriptors to read now. While an attached reader is behind, output is not read."""
        held = any(reader.behind for reader in self.readers)
        return [each for each in self.open_descriptors if not (held and each in self.streams)]

    def readable(self, descriptor: int) -> None:
        if descriptor in self.streams:
            try:
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                return
            except OSError:  # a terminal reports this when nobody has it open any more
                data = b""
            if data:
                self.streams[descriptor].feed(data)
                for reader in self.readers:
                    reader.feed(self.streams[descriptor].name, data)
                return
            self.streams.pop(descriptor).end()
            os.close(descriptor)
        else:
            self._read_reports()
        # Everything of the container has ended when its init has gone and nobody holds its output any more.
        if not self.open_descriptors:
            self._finish()

    def _read_reports(self) -> None:
        try:
            data, given = keeper.receive(self.control, 1 << 16, 1)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data, given = b"", []
        for terminal in given:
            self.input = os.dup(terminal) if self.container["stdin"] else -1
            self.streams[terminal] = Stream("stdout", self._log)
        *reports, self._incomplete = (self._incomplete + data).split(b"\n")
        for line in reports:
            self._reported(json.loads(line))
        if not data:
            self.control.close()

    def _reported(self, report: InitReport) -> None:
        if report.get("started"):
            self._started = time.time()
            self._record("running", -1)
        self._failure = report.get("failed", self._failure)
        self._status = report.get("status", self._status)

    def end_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1

    def signal(self, number: int) -> None:
        try:
            self.control.send(bytes([number]))
        except OSError:
            return  # it has ended

    def stop(self, grace: float) -> None:
        """SIGTERM now and SIGKILL after `grace` seconds, even if nobody asks again; a later, shorter grace counts."""
        deadline = time.monotonic() + grace
        if self.kill_at is None:
            self.signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
            self.kill_at = deadline
        self.kill_at = min(self.kill_at, deadline)

    def tick(self, now: float) -> None:
        """Does what is due; call at or after `kill_at`."""
        if self.kill_at is None or self.state_is_final or now < self.kill_at:
            return
        self.signal(signal.SIGKILL)
        if now > self.kill_at + KILL_PATIENCE and self.init_pid:
            os.kill(self.init_pid, signal.SIGKILL)

    @property
    def state_is_final(self) -> bool:
        return self.state is not None and self.state["status"] == "exited"

    def _finish(self) -> None:
        for pid in self.keepers:
            os.waitpid(pid, 0)  # the kernel lets the init end when it has killed all others and they were reaped
        self.keepers.clear()
        if self.init_pid:
            os.waitpid(self.init_pid, 0)
            self.init_pid = 0
        self._log.close()
        self.end_input()
        if self._failure:
            self._record("exited", START_ERROR_CODE, reason="StartError", message=self._failure)
        else:
            # Without a report the init itself was killed, as the kernel does when memory runs out.
            self._record_exit(signal.SIGKILL if self._status is None else self._status)

    def _record_exit(self, status: int) -> None:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + number if number else os.WEXITSTATUS(status)
        reason = "Error" if code else "Completed"
        if number == signal.SIGKILL and self._count_oom_kills() > self._oom_kills:
            reason = "OOMKilled"
        self._record("exited", code, number, reason, self._termination_message())

    def _termination_message(self) -> str:
        try:
            with open(os.path.join(self.directory, "termination-log"), "rb") as file:
                return file.read(TERMINATION_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def _count_oom_kills(self) -> int:
        """How often the kernel ended something in this container's memory cgroup (v1: oom_control, v2: events)."""
        for procs in self.container["cgroups"]:
            folder = os.path.dirname(procs)
            for name in ("memory.oom_control", "memory.events"):
                try:
                    with open(os.path.join(folder, name)) as file:
                        counts = dict(line.split() for line in file)
                except OSError:
                    continue
                return int(counts.get("oom_kill", 0))
        return 0

    def _record(self, status: str, code: int, number: int = 0, reason: str = "", message: str = "") -> None:
        self.state = {
            "status": "exited" if status == "exited" else "running",
            "startedAt": self._started,
            "finishedAt": time.time() if status == "exited" else 0.0,
            "exitCode": code,
            "signal": int(number),
            "reason": reason,
            "message": message,
        }
        documents.write(os.path.join(self.directory, "state.json"), self.state)
        self._changed(self)


def close_all_but(kept: set[int]) -> None:
    """Call it in a forked child: closes the shim's descriptors, above all the other containers' control sockets.

    An init sees the shim's death as the closing of its socket; a copy held by another init would hide it.
    """
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one that listed the directory


def _start_init(launch: Launch, shim: socket.socket, pid_writer: int) -> None:
    """In a process of its own: enters new pid and mount namespaces, leaves the init as their first process, and ends.

    The init keeps the pod's lock open: a free lock means that the shim and every container of the pod have gone.
    """
    try:
        flags = launch.sandbox["namespaces"] & (sys_.CLONE_NEWPID | sys_.CLONE_NEWNS)
        if flags:
            sys_.unshare(flags)
        pid = os.fork()
        if pid == 0:
            os.close(pid_writer)
            init.run(launch, shim)
        os.write(pid_writer, str(pid).encode())
    except OSError as error:
        shim.sendall(json.dumps({"failed": f"cannot make the container's namespaces: {error}"}).encode() + b"\n")
    finally:
        os._exit(0)
