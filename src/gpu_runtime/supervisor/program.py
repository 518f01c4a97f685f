"""What is to be run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Program:
    """One process: its command, where it says that it is ready, and what must be ready before it."""

    name: str
    command: Sequence[str]
    health: str
    """URL that answers 200 when the process can do its work. One that lives answers something."""
    serves: str = ""
    """URL that answers 200 as soon as those after it may start; `health` if they have to wait for all of it."""
    after: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """What the process reads at its start."""
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], Awaitable[None]] | None = None
    """Done once, when it serves for the first time and before those after it start."""
    address: str = ""
    """Where it serves, for people."""
    stop_seconds: float = STOP_SECONDS

    def digest(self) -> str:
        """Differs when a running process would not be what starting it again gives."""
        told = sha256(repr((list(self.command), sorted(self.environment.items()))).encode())
        for path in self.files:
            told.update(path.read_bytes())
        return told.hexdigest()


def levels(programs: Sequence[Program]) -> list[list[Program]]:
    """Groups in the order of starting: each needs only what stands in groups before it."""
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
