"""Child processes that never outlive who started them, and waiting for what they do."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from realkube.errors import RealKubeError

POLL = 0.02
PATIENCE = 120.0  # a busy machine is no error
SERVER_PORTS = range(20_000, 32_768)


class Process:
    """One running program with a log file of its own.

    The kernel kills it when the thread that started it ends, however that happens: a test run that is killed
    leaves nothing behind. (setpriv and not a preexec function: that would fork a Python with threads.)
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._child.pid

    def require_alive(self) -> None:
        """Raise, with the end of its log, if the program has ended."""
        status = self._child.poll()
        if status is not None:
            raise RealKubeError(f"{self.name} ended with status {status}: {self.last_words()} (log: {self.log})")

    def last_words(self) -> str:
        """The last line of the log that tells something, without its time and source position."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"[EF]\d{4} ", line) or "rror" in line]
        last = (errors or lines or ["it wrote nothing"])[-1]
        return re.sub(r"^[EFIW]\d{4} \S+ +\d+ \S+\] ", "", last)

    def kill(self) -> None:
        """End the program at once: nobody will read its data again, so there is nothing to flush."""
        self._child.kill()
        self._child.wait()


def wait_until(
    condition: Callable[[], bool], what: str, processes: Sequence[Process] = (), timeout: float = PATIENCE
) -> None:
    """Return once the condition holds; raise when it does not in time or when one of the processes has ended."""
    deadline = time.monotonic() + timeout
    while not condition():
        for process in processes:
            process.require_alive()
        if time.monotonic() > deadline:
            last = "; ".join(f"{process.name}: {process.last_words()}" for process in processes)
            raise RealKubeError(f"{what}: not within {timeout:.0f} s. {last}")
        time.sleep(POLL)


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Different ports that nobody listens on now, from below those that the kernel gives to outgoing connections."""
    free: list[int] = []
    while len(free) < count:
        port = random.choice(SERVER_PORTS)
        with socket.socket() as attempt, suppress(OSError):
            attempt.bind((address, port))
            free += [port] if port not in free else []
    return free


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its status is the caller's to judge."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def must_run(*command: str) -> None:
    """Run a command that has no reason to fail; if it does, what it said is the error."""
    done = run(*command)
    if done.returncode != 0:
        raise RealKubeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
