"""What the store needs of a database: few calls, so that two databases behave alike.

Statements are written once for both, with parameters $1, $2, ... They use only what both understand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from gpu_runtime.serverless.results.migrations import Migration

Value = str | int | bytes | None
Row = Sequence[Any]


class Statement(NamedTuple):
    """A statement and the parameters of each of its executions."""

    sql: str
    values: Sequence[Sequence[Value]]


class StoreUnavailable(Exception):
    """The database cannot answer now. The message says why and holds no secret; the call may be repeated."""


class IncompatibleSchema(StoreUnavailable):
    """The schema is of another release. Only another release of this process or of the result store helps."""


class StoreRefused(Exception):
    """The database will never take these values: repeating the call does not help."""


class Database(Protocol):
    """Connections to one database. Each call raises StoreUnavailable if there is no answer in time."""

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """The rows of one SELECT."""

    async def write(self, statements: Sequence[Statement]) -> None:
        """Executes all in one transaction. It is on disk when this returns."""

    async def migrate(self, migrations: Sequence[Migration]) -> None:
        """Executes the migrations that the schema lacks, in one transaction. Waits for others who migrate."""

    async def close(self) -> None:
        """Ends all connections. Calls after it raise StoreUnavailable."""
