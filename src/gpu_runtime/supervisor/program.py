"""The programs that a supervisor runs, and the order in which they start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Program:
    """One program: its command, its readiness URL, and the programs that must be ready before it starts."""

    name: str
    command: Sequence[str]
    health: str
    """URL that answers 200 when the process can do its work. A process that does not hang answers with some status."""
    serves: str = ""
    """URL that answers 200 when the programs that depend on this one may start. Empty: they wait for `health`."""
    after: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """Files that the process reads at its start."""
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], Awaitable[None]] | None = None
    """Called once: when the program serves for the first time, before the programs that depend on it start."""
    address: str = ""
    """The URL that is shown to people."""
    stop_seconds: float = STOP_SECONDS
    unready_seconds: float | None = None
    """A process that was ready, and then reports a problem for this long, is restarted. None: it is left alone."""

    def digest(self) -> str:
        """Changes when the command, environment or files change: then a running process must not be adopted."""
        hashed = sha256(repr((list(self.command), sorted(self.environment.items()))).encode())
        for path in self.files:
            hashed.update(path.read_bytes())
        return hashed.hexdigest()


def levels(programs: Sequence[Program]) -> list[list[Program]]:
    """Groups of programs in start order. A program depends only on programs of earlier groups."""
    waiting = {program.name: program for program in programs}
    ordered: list[list[Program]] = []
    while waiting:
        group = [program for program in waiting.values() if not any(name in waiting for name in program.after)]
        if not group:
            raise ValueError(f"each of these waits for another: {', '.join(waiting)}")
        for program in group:
            del waiting[program.name]
        ordered.append(group)
    return ordered
