"""One step of CI: a command with a time limit. Also finds environment variables that would weaken a check."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
SECONDS_TO_TELL = 30.0
"""How long pytest may take to show where it was interrupted and to stop what its fixtures started."""
WEAKENING = re.compile(
    r"(GPU_RUNTIME|HYPOTHESIS|KUBERNETES|MYPY|PYTEST|RUFF|SCHEMATHESIS)_\w+"
    r"|KUBEBUILDER_ASSETS|KUBECONFIG|MYPYPATH|PYTHON(ASYNCIODEBUG|OPTIMIZE|PATH|STARTUP|WARNINGS)"
)
"""Variables that change what a check does: other options, fewer examples, another server, no asserts."""


@dataclass(frozen=True)
class Step:
    name: str
    command: Sequence[str]
    minutes: float = 10.0
    """The time limit: several times what a busy machine needs, so that only a hanging program reaches it."""


@dataclass(frozen=True)
class Outcome:
    """How a step ended and everything that it wrote."""

    code: int
    output: str
    timed_out: bool = False


def weakening(environment: Mapping[str, str]) -> list[str]:
    """The names of the environment variables that a strict run clears."""
    return sorted(name for name in environment if WEAKENING.fullmatch(name))


def cleared(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not WEAKENING.fullmatch(name)}


def end_with_steps() -> None:
    """Turns SIGTERM into SystemExit, so that `run` kills its step: a step has its own session and would live on."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class Lanes:
    """Runs steps of several lanes at the same time, each lane in order. Ctrl-C and SIGTERM end the steps of all."""

    def __init__(self) -> None:
        self._ending = False
        self._children: set[subprocess.Popen[bytes]] = set()

    def run(self, lanes: Sequence[Sequence[Callable[[Lanes], T]]]) -> list[T]:
        """The results, lane by lane. Each call passes the lanes on to `run`."""

        def one(lane: Sequence[Callable[[Lanes], T]]) -> list[T]:
            return [step(self) for step in lane]

        with ThreadPoolExecutor(max(1, len(lanes))) as pool:
            try:
                return [result for results in pool.map(one, lanes) for result in results]
            except BaseException:
                self._ending = True
                for child in list(self._children):
                    kill(child)
                raise

    def check(self) -> None:
        """SystemExit when all lanes are ending: no further step may begin."""
        if self._ending:
            raise SystemExit(128 + signal.SIGTERM)

    @contextmanager
    def holding(self, child: subprocess.Popen[bytes]) -> Iterator[None]:
        """Registers the child of a step."""
        self._children.add(child)
        try:
            self.check()  # after the child is known, so that no child is missed
            yield
        finally:
            self._children.discard(child)


def run(step: Step, environment: Mapping[str, str], lanes: Lanes | None = None) -> Outcome:
    """Runs a step to its end or to its time limit."""
    if lanes is not None:
        lanes.check()
    # A file and not a pipe: a process that outlives the step would keep a pipe open, and reading it would not end.
    with tempfile.TemporaryFile() as written:
        child = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with lanes.holding(child) if lanes else nullcontext():
                timed_out = not ended(child, step.minutes * 60)
                if timed_out:
                    child.send_signal(signal.SIGINT)
                    ended(child, SECONDS_TO_TELL)
        finally:
            kill(child)
        written.seek(0)
        return Outcome(child.returncode, written.read().decode(errors="replace"), timed_out)


def ended(child: subprocess.Popen[bytes], within: float) -> bool:
    try:
        child.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill(child: subprocess.Popen[bytes]) -> None:
    """Ends the command, its process group and its descendants, which may be in sessions of their own."""
    for process in [] if child.poll() is not None else descendants(child.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with suppress(ProcessLookupError):  # also when the command ended by itself: it may have left others behind
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def descendants(process: int) -> list[int]:
    """The children of a process, their children, and so on."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [process]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]
