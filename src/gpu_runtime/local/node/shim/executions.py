"""Commands run inside a running container: exec probes and hooks."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from gpu_runtime.local.node.shim import init, program
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.container import Run, close_all_but
from gpu_runtime.local.node.shim.shapes import Container

LONGEST_OUTPUT = 10 * 1024
TIMED_OUT = -1


class Execution:
    """One command in one container; `done(exit code, output)` is called once, with TIMED_OUT past its timeout."""

    def __init__(
        self, run: Run, isolated: bool, command: list[str], timeout: float, done: Callable[[int, str], None]
    ) -> None:
        self.deadline = time.monotonic() + timeout
        self._done, self._output, self._timed_out = done, b"", False
        pid_reader, pid_writer = os.pipe2(os.O_CLOEXEC)
        self.descriptor, output = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.descriptor, False)
        self.ended_output = False
        self._guard = os.fork()
        if self._guard == 0:
            close_all_but({pid_writer, output})
            _guard(run, isolated, command, pid_writer, output)
        os.close(pid_writer)
        os.close(output)
        self._pid = int(os.read(pid_reader, 32) or b"0")
        os.close(pid_reader)

    def readable(self) -> None:
        """Takes more output."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.descriptor, 1 << 16)
            self._output = (self._output + data)[:LONGEST_OUTPUT]
            self.ended_output = self.ended_output or not data

    def tick(self, now: float) -> bool:
        """Does what is due; False when the command has ended and `done` was called.

        The command's own end decides: something that it left behind may hold its output open for ever.
        """
        if now >= self.deadline and not self._timed_out:
            self._timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid or self._guard, signal.SIGKILL)
        pid, status = os.waitpid(self._guard, os.WNOHANG)
        if pid == 0:
            return True
        self.readable()
        os.close(self.descriptor)
        code = TIMED_OUT if self._timed_out else os.waitstatus_to_exitcode(status)
        self._done(code, self._output.decode(errors="replace"))
        return False


def _guard(run: Run, isolated: bool, command: list[str], pid_writer: int, output: int) -> None:
    """Stays outside the container's pid namespace, where it can wait for the command that it starts inside."""
    try:
        os.setsid()
        program.join_cgroups(run.container["cgroups"], os.getpid())
        if isolated:
            spaces = {
                kind: os.open(f"/proc/{run.init_pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("pid", "mnt")
            }
            sys_.setns(spaces["pid"], sys_.CLONE_NEWPID)
            sys_.setns(spaces["mnt"], sys_.CLONE_NEWNS)
        pid = os.fork()
        if pid == 0:
            os.close(pid_writer)
            _become(run.container, command, output)
        os.write(pid_writer, str(pid).encode())
        os.close(output)
        os.close(pid_writer)
        _, status = os.waitpid(pid, 0)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
    except OSError as error:
        os.write(output, str(error).encode())
    finally:
        os._exit(126)


def _become(container: Container, command: list[str], output: int) -> None:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        init.attach_output(container, (output, output))
        program.become(container, command)
    except program.CannotExecute as error:
        os.write(output, str(error).encode())
    finally:
        os._exit(126)
