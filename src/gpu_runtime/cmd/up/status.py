"""`gpu-runtime status`: the state of the processes of a data directory, read without the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit

from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.supervisor.folder import Record
from gpu_runtime.supervisor.holder import Holder, holder
from gpu_runtime.supervisor.probe import problem

State = Literal["ready", "not ready", "dead"]


@dataclass(frozen=True)
class ProcessStatus:
    """The current state of one process."""

    record: Record
    state: State
    problem: str = ""


@dataclass(frozen=True)
class Status:
    """All processes and their supervisor. `supervisor` is None when it was killed and left the processes running."""

    supervisor: Holder | None
    processes: tuple[ProcessStatus, ...]

    @property
    def healthy(self) -> bool:
        return self.supervisor is not None and all(each.state == "ready" for each in self.processes)


def read_status(layout: Layout) -> Status:
    records, supervisor = layout.supervised.records(), holder(layout.supervised.lock)
    return Status(supervisor, tuple(asyncio.run(_ask(records, supervised=supervisor is not None))))


async def _ask(records: Iterable[Record], *, supervised: bool) -> list[ProcessStatus]:
    return await asyncio.gather(*(_process_status(record, supervised) for record in records))


async def _process_status(record: Record, supervised: bool) -> ProcessStatus:
    if not record.identity.running():
        return ProcessStatus(
            record, "dead", "being started again" if supervised else "not restarted: no supervisor runs"
        )
    missing = await problem(record.health)
    return ProcessStatus(record, "ready") if missing is None else ProcessStatus(record, "not ready", missing)


def table(status: Status, now: datetime | None = None) -> list[tuple[str, ...]]:
    """The rows to print, with the heading first."""
    at = now or datetime.now(UTC)
    rows: list[tuple[str, ...]] = [("NAME", "STATE", "PID", "PORT", "RESTARTS", "UPTIME", "PROBLEM")]
    for each in status.processes:
        record = each.record
        port = urlsplit(record.address or record.health).port
        uptime = duration((at - record.since).total_seconds()) if each.state != "dead" else "-"
        rows.append(
            (record.name, each.state, str(record.identity.pid), str(port), str(record.restarts), uptime, each.problem)
        )
    return rows


def duration(seconds: float) -> str:
    """A duration in the format of kubectl's AGE column: at most the two largest units."""
    whole = int(seconds)
    for unit, size, lesser, lesser_size in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // lesser_size
            return f"{whole // size}{unit}{rest}{lesser}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"
