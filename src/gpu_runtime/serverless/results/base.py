"""What a database of results can do. `sqlite.py` and `postgres.py` implement both protocols.

The result store (the process) writes, runtime-api reads. A row is written in whole or not at all, and what a row says
of an acceptance or of an end never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from gpu_runtime.serverless.messages import State
from gpu_runtime.serverless.results.database import IncompatibleSchema, StoreRefused, StoreUnavailable
from gpu_runtime.serverless.results.records import Acceptance, DeadLetter, DeadLetterSource, End, Page, StoredRun
from gpu_runtime.serverless.subjects import Function, Run

__all__ = [
    "Batch",
    "BodyPart",
    "DeadLetterQuery",
    "Deleted",
    "FinishedRun",
    "IncompatibleSchema",
    "InvalidPageToken",
    "ResultReader",
    "ResultStore",
    "RunQuery",
    "StoreRefused",
    "StoreUnavailable",
]

BodyPart = Literal["payload", "result"]


class InvalidPageToken(ValueError):
    """A page token that no list gave, or that a list with other filters gave."""


@dataclass(frozen=True)
class RunQuery:
    """Which runs to list, newest acceptance first. Filters that are None accept everything."""

    namespace: str | None = None
    function: str | None = None
    """The name of a function; of any namespace if `namespace` is None."""
    state: State | None = None
    """`queued` finds runs that have no end here; otherwise the state of the end."""
    accepted_from: datetime | None = None
    """Inclusive."""
    accepted_before: datetime | None = None
    """Exclusive."""
    all_runs: bool = False
    """False: only the last run of each invocation."""
    limit: int = 100
    token: str | None = None
    """`next` of the page before. The other filters must be the same."""


@dataclass(frozen=True)
class DeadLetterQuery:
    """Which dead letters to list, newest first."""

    namespace: str | None = None
    function: str | None = None
    source: DeadLetterSource | None = None
    redriven: bool | None = None
    limit: int = 100
    token: str | None = None


class ResultReader(Protocol):
    """Reads results. Every call raises StoreUnavailable when the database does not answer in time."""

    async def get(self, run: Run) -> StoredRun | None:
        """One run."""

    async def get_last(self, function: Function, invocation_id: str) -> StoredRun | None:
        """The last run of an invocation."""

    async def find(self, invocation_id: str) -> list[Function]:
        """The functions that have an invocation of this id, at most 100, in order."""

    async def list_runs(self, query: RunQuery) -> Page[StoredRun]:
        """Runs without payloads and bodies: their messages have none (`get` has them). Pages never repeat a run, and
        never skip one that was there when the first page was read. InvalidPageToken for a token of another list."""

    async def body(self, run: Run, part: BodyPart) -> bytes | None:
        """A payload or result that its message refers to (`payload.ref`, `body.ref`). None: the broker dropped it
        before it was copied, or it is not kept any more."""

    async def list_dead_letters(self, query: DeadLetterQuery) -> Page[DeadLetter]:
        """Dead letters without `content`."""

    async def get_dead_letter(self, dead_letter: str) -> DeadLetter | None:
        """One dead letter by its id, with its content."""

    async def close(self) -> None:
        """Ends every connection. Further calls raise StoreUnavailable."""


@dataclass(frozen=True)
class Batch:
    """What one transaction stores."""

    acceptances: Sequence[Acceptance] = ()
    ends: Sequence[End] = ()
    dead_letters: Sequence[DeadLetter] = ()


@dataclass(frozen=True)
class FinishedRun:
    """A run whose end is in the database, and of which the broker may have copies."""

    run: Run
    state: State
    acceptance_stored: bool
    large_bodies: bool
    """Its payload or result is too large for a message."""
    payload_missing: bool
    """Its payload is large and not in the database."""


@dataclass(frozen=True)
class Deleted:
    runs: int
    dead_letters: int
    size: int
    """Bytes."""

    def __bool__(self) -> bool:
        return self.runs + self.dead_letters > 0


class ResultStore(ResultReader, Protocol):
    """Writes results. A call that returns has its rows on disk; one that raises may have stored them or not."""

    async def migrate(self) -> None:
        """Brings the schema up to date, once for any number of replicas. IncompatibleSchema if it is newer."""

    async def save(self, batch: Batch) -> None:
        """Stores what is not there yet, in one transaction. Repeating is harmless: the first record stays.
        StoreRefused: the database will never take this batch."""

    async def save_body(self, run: Run, part: BodyPart, content: bytes) -> None:
        """Stores a large payload or result. Repeating is harmless: the first content stays."""

    async def finished(self, ended_before: datetime, limit: int) -> list[FinishedRun]:
        """Runs that are not marked as purged, oldest end first."""

    async def mark_purged(self, runs: Sequence[Run]) -> None:
        """Their copies are gone from the broker: `finished` does not return them again."""

    async def delete_oldest(
        self, limit: int, *, ended_before: datetime | None = None, size: int | None = None
    ) -> Deleted:
        """Deletes runs that are purged from the broker, and dead letters: those that ended first, and no more than
        `limit`, nor more than it takes to delete `size` bytes."""

    async def size(self) -> int:
        """Bytes of all records, without what the database adds to them."""
