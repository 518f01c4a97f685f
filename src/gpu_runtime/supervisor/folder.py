"""The files of a supervisor, and its record of each process, which a later supervisor reads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from gpu_runtime.supervisor.files import write_private
from gpu_runtime.supervisor.identity import Identity


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One process as it was last started."""

    name: str
    identity: Identity
    digest: str
    since: datetime
    restarts: int = 0
    address: str = ""
    health: str = ""
    """Readiness URL. Empty when the process has none."""
    stop_seconds: float = 30.0
    order: int = 0
    """Position in the start order. Processes with a higher order are stopped first."""


@dataclass(frozen=True)
class Folder:
    """The data directory of one supervisor."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "run" / "lock"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def config(self, name: str) -> Path:
        return self.root / "config" / f"{name}.yaml"

    def make(self) -> None:
        """Creates the folders, readable by their owner only: logs and settings may contain private data."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for inner in ("run", "logs", "config"):
            (self.root / inner).mkdir(mode=0o700, exist_ok=True)

    def write(self, record: Record) -> None:
        write_private(self._record(record.name), msgspec.json.encode(record))

    def forget(self, name: str) -> None:
        """Removes the record of a process that has ended. A record that cannot be removed does no harm."""
        with suppress(OSError):
            self._record(name).unlink()

    def records(self) -> list[Record]:
        """All records in start order. Files that cannot be read are skipped."""
        found = []
        for path in (self.root / "run").glob("*.json"):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Record))
            except (OSError, msgspec.DecodeError):
                continue
        return sorted(found, key=lambda record: (record.order, record.name))

    def _record(self, name: str) -> Path:
        return self.root / "run" / f"{name}.json"
