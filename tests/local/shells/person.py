"""A person with a kubectl: calls that end by themselves, and a terminal in which one is typed into."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from equipment.servers import ApiServer
from equipment.waiting import eventually_sync

LONGEST_SECONDS = 60.0


@dataclass(frozen=True)
class Result:
    code: int
    output: bytes
    errors: str


class Terminal:
    """A kubectl in a pseudo-terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.said = b""
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        os.set_blocking(self._end, False)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def expect(self, pattern: str) -> str:
        """Reads until what was said since the last time matches, and returns the match."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not (found := re.search(pattern.encode(), self.said)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.said!r}"
            if not self._read():
                raise AssertionError(f"ended without {pattern!r}: {self.said!r}")
        self.said = self.said[found.end() :]
        return found.group().decode()

    def _read(self) -> bool:
        ready, _, _ = select.select([self._end], [], [], 1.0)
        try:
            data = os.read(self._end, 1 << 16) if ready else b""
        except OSError:  # the other side has closed
            return False
        self.said += data
        return bool(data) or not ready

    def wait(self) -> int:
        """Its exit code, at its end."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"still says: {self.said!r}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)


class Person:
    """Uses kubectl in one namespace of one cluster."""

    def __init__(self, server: ApiServer, program: Path, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self._program = [str(program), "--kubeconfig", str(server.kubeconfig), "--namespace", namespace]

    def run(self, *words: str, given: bytes = b"") -> Result:
        done = subprocess.run(
            [*self._program, *words], input=given, capture_output=True, check=False, timeout=LONGEST_SECONDS
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())

    def exec(self, pod: str, *command: str, given: bytes | None = None) -> Result:
        options = ["-i"] if given is not None else []
        return self.run("exec", *options, pod, "--", *command, given=given or b"")

    def output_of(self, pod: str, *command: str) -> str:
        done = self.exec(pod, *command)
        assert done.code == 0, done
        return done.output.decode()

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that goes on by itself until the block ends."""
        pipe = subprocess.PIPE
        with subprocess.Popen([*self._program, *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def terminal(self, *words: str) -> Iterator[Terminal]:
        terminal = Terminal([*self._program, *words])
        try:
            yield terminal
        finally:
            terminal.close()

    def processes(self, pod: str, mark: str) -> list[str]:
        """The processes inside the pod whose command line has `mark`, but not those of the one who looks."""
        found = self.output_of(pod, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\000\\n' '  '; true")
        assert found
        return re.findall(rf"{re.escape(mark)}\b", found)

    def no_process(self, pod: str, mark: str) -> None:
        eventually_sync(lambda: not self.processes(pod, mark), what=f"nothing of {mark} is left")
