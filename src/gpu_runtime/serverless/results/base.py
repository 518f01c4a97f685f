"""What a database of results can do. `sqlite.py` and `postgres.py` implement both protocols.

The result store (the process) writes, runtime-api reads. A row is written in whole or not at all, and what a row says
of an acceptance or of an end never changes afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from gpu_runtime.serverless.messages import ResultMessage, State
from gpu_runtime.serverless.results.records import Acceptance, DeadLetter, DeadLetterSource, Page, StoredRun
from gpu_runtime.serverless.subjects import Function, Run

BodyPart = Literal["payload", "result"]


class StoreUnavailable(Exception):
    """The database cannot answer now. The message says why and holds no secret; the call may be repeated."""


class IncompatibleSchema(Exception):
    """The database was written by a newer release, or is not a database of results. Repeating does not help."""


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
    ends: Sequence[ResultMessage] = ()
    dead_letters: Sequence[DeadLetter] = ()


@dataclass(frozen=True)
class FinishedRun:
    """A run whose acceptance and end are in the database, so the broker's copies are not needed any more."""

    run: Run
    state: State
    completed_at: datetime
    payload_missing: bool
    """Its payload was too large for the message and is not in the database yet."""


class ResultStore(ResultReader, Protocol):
    """Writes results. A call that returns has its rows on disk; one that raises may have stored them or not."""

    async def migrate(self) -> None:
        """Brings the schema up to date, once for any number of replicas. IncompatibleSchema if it is newer."""

    async def save(self, batch: Batch) -> None:
        """Stores what is not there yet, in one transaction. Repeating is harmless: the first record stays."""

    async def save_body(self, run: Run, part: BodyPart, chunks: AsyncIterator[bytes]) -> None:
        """Stores a large payload or result. Repeating is harmless. The body is whole when this returns."""

    async def finished(self, completed_before: datetime, limit: int) -> list[FinishedRun]:
        """Runs that the broker may still hold copies of, oldest end first."""

    async def mark_purged(self, runs: Sequence[Run]) -> None:
        """Their copies are gone from the broker: `finished` does not return them again."""

    async def delete_before(self, completed_before: datetime, limit: int) -> int:
        """Deletes purged runs and dead letters that ended before this time, oldest first; how many."""

    async def delete_oldest(self, limit: int) -> int:
        """Deletes the purged runs and dead letters that ended first; how many."""

    async def size(self) -> int:
        """Bytes that the rows use, without space that deleted rows left behind."""
