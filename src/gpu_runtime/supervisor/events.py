"""Events that a supervisor reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ready:
    """The process is ready, `seconds` after its start."""

    name: str
    seconds: float
    address: str
    adopted: bool = False
    restarts: int = 0


@dataclass(frozen=True)
class Died:
    """The process ended without being stopped and is restarted. `silent`: it hung so many seconds, then was killed."""

    name: str
    how: str
    again_in: float
    silent: float = 0.0


@dataclass(frozen=True)
class Unready:
    """The process has reported the problem for `seconds` and is stopped, to be restarted."""

    name: str
    seconds: float
    problem: str


@dataclass(frozen=True)
class Ended:
    """The process was stopped, which took `seconds`. `killed`: it did not end in time after SIGTERM."""

    name: str
    seconds: float
    killed: bool = False
    leftover: bool = False


Event = Ready | Died | Unready | Ended


class StartFailed(Exception):
    """A process never became ready; `log_tail` holds the last lines of its log."""

    def __init__(self, name: str, why: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why
        self.log_tail = log_tail
