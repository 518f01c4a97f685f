"""PostgreSQL: for any number of replicas on any number of machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.results.database import (
    IncompatibleSchema,
    Row,
    Statement,
    StoreRefused,
    StoreUnavailable,
    Value,
)
from gpu_runtime.serverless.results.migrations import CREATE_VERSION_TABLE, READ_VERSION, Migration, missing, newer

CONNECTIONS = 8
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 15.0
MIGRATE_SECONDS = 600.0
CLOSE_SECONDS = 5.0
MIGRATION_LOCK = 0x6772_7265_7375_6C74
"""The key of the advisory lock: "grresult". One replica migrates at a time."""
TYPES = {"text": 'TEXT COLLATE "C"', "blob": "BYTEA"}

REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    OverflowError,
    UnicodeError,
)
UNAVAILABLE = (
    ConfigError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    asyncio.IncompleteReadError,
)


class PostgresDatabase:
    """A pool of connections, made with the first call. A connection that breaks is replaced by the next call."""

    def __init__(
        self, address: str, *, password: Callable[[], str] | None = None, tls: Any = None, read_only: bool = False
    ) -> None:
        # The password is not part of the address, so that no message that quotes the address can show it.
        self._address, self._password, self._tls, self._read_only = address, password, tls, read_only
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        async with self._connection() as connection:
            rows: list[Row] = await connection.fetch(sql, *values)
            return rows

    async def write(self, statements: Sequence[Statement]) -> None:
        async with self._connection() as connection, connection.transaction():
            # The server's setting may be weaker; a message is acknowledged after this commit.
            await connection.execute("SET LOCAL synchronous_commit = on")
            for sql, values in statements:
                await connection.executemany(sql, values)

    async def migrate(self, migrations: Sequence[Migration]) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})", timeout=MIGRATE_SECONDS)
            await connection.execute(CREATE_VERSION_TABLE)
            row = await connection.fetchrow(READ_VERSION)
            found, known = row[0] if row else 0, migrations[-1].version
            if found > known:
                raise IncompatibleSchema(newer(found, known))
            for migration in missing(found, migrations):
                for statement in migration.statements:
                    await connection.execute(statement.format(**TYPES), timeout=MIGRATE_SECONDS)
            await connection.execute("DELETE FROM schema_version")
            await connection.execute("INSERT INTO schema_version VALUES ($1)", known)

    async def close(self) -> None:
        self._closed = True
        if self._pool is None:
            return
        with suppress(*UNAVAILABLE):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
                return
        self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        if self._closed:
            raise StoreUnavailable("the database is closed")
        try:
            pool = await self._open()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection
        except REFUSED as error:
            raise StoreRefused(f"PostgreSQL refused the values: {error}") from error
        except UNAVAILABLE as error:
            raise StoreUnavailable(f"{self._where()}: {_words(error)}") from error

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                settings = {"application_name": "gpu-runtime"}
                if self._read_only:
                    settings["default_transaction_read_only"] = "on"
                self._pool = await asyncpg.create_pool(
                    self._address,
                    password=self._password,
                    ssl=self._tls,
                    min_size=0,
                    max_size=CONNECTIONS,
                    timeout=CONNECT_SECONDS,
                    command_timeout=COMMAND_SECONDS,
                    server_settings=settings,
                )
            return self._pool

    def _where(self) -> str:
        return f"PostgreSQL at {urlsplit(self._address).netloc.rpartition('@')[2] or 'the local socket'}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
