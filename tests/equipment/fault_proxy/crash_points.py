"""Every point at which a process can die between its writes, found from a clean run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from equipment.fault_proxy.history import Exchange
from equipment.fault_proxy.kill import When


@dataclass(frozen=True)
class CrashPoint:
    """Before or after the n-th write: `proxy.kill_at(point.n, victim, point.when)`."""

    n: int
    when: When
    what: str

    def __str__(self) -> str:
        return f"{self.when} write {self.n}, {self.what}"


def crash_points(clean_run: Iterable[Exchange]) -> list[CrashPoint]:
    """Two points for each write of a clean run: the server never saw it, and the server did it but no answer came.

    A write that the server refused as a Conflict does not count: another run may need none, and never gets so far.
    """
    sides: tuple[When, ...] = ("before", "after")
    writes = [exchange for exchange in clean_run if exchange.call.mutating and exchange.status != HTTPStatus.CONFLICT]
    return [CrashPoint(n, when, str(exchange.call)) for n, exchange in enumerate(writes, 1) for when in sides]
