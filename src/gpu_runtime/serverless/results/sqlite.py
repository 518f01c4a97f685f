"""SQLite: for one machine. One process writes; others read the same file."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from gpu_runtime.serverless.results.database import (
    IncompatibleSchema,
    Row,
    Statement,
    StoreRefused,
    StoreUnavailable,
    Value,
)
from gpu_runtime.serverless.results.migrations import CREATE_VERSION_TABLE, READ_VERSION, Migration, missing, newer

T = TypeVar("T")
READERS = 4
READ_SECONDS = 10.0
ANSWER_SECONDS = 15.0
"""For a call with its wait for a free thread."""
WRITE_SECONDS = 60.0
BUSY_SECONDS = 10.0
"""How long a call waits for another process that writes."""
STEPS_BETWEEN_LOOKS = 10_000
TYPES = {"text": "TEXT", "blob": "BLOB"}


class SqliteDatabase:
    """Writes in one thread, and what waits there is committed together. Reads in a few threads."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path, self._read_only = path, read_only
        self._writer = ThreadPoolExecutor(1, "results-write")
        self._readers = ThreadPoolExecutor(READERS, "results-read")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._waiting: list[tuple[Sequence[Statement], asyncio.Future[None]]] = []
        self._waiting_lock = threading.Lock()
        self._migrations: Sequence[Migration] = ()
        self._closed = False

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self._call(self._readers, lambda: self._fetch(sql, values))

    async def write(self, statements: Sequence[Statement]) -> None:
        if self._closed:
            raise StoreUnavailable("the database is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._waiting_lock:
            self._waiting.append((statements, done))
            first = len(self._waiting) == 1
        if first:
            # Everything that is added until the thread takes the list goes into the same commit.
            self._writer.submit(self._commit_waiting, loop)
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await asyncio.shield(done)
        except TimeoutError:
            raise StoreUnavailable(f"{self._path}: no answer in {WRITE_SECONDS:g} s") from None

    async def migrate(self, migrations: Sequence[Migration]) -> None:
        self._migrations = migrations
        await self._call(self._writer, lambda: self._migrate(migrations))

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._close)

    async def _call(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreUnavailable("the database is closed")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(threads, work)
        except TimeoutError:
            raise StoreUnavailable(f"{self._path}: no answer in {ANSWER_SECONDS:g} s") from None

    def _fetch(self, sql: str, values: Sequence[Value]) -> list[Row]:
        with _translated_errors(self._path):
            connection = self._connection()
            until = time.monotonic() + READ_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
            return connection.execute(numbered(sql), values).fetchall()

    def _commit_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._waiting_lock:
            jobs, self._waiting = self._waiting, []
        error = self._commit([statement for statements, _ in jobs for statement in statements])
        for statements, done in jobs:
            # One bad job must not fail its neighbours.
            own = self._commit(statements) if error is not None and len(jobs) > 1 else error
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_finish, done, own)

    def _commit(self, statements: Sequence[Statement]) -> Exception | None:
        try:
            with _translated_errors(self._path), _transaction(self._connection()) as connection:
                for sql, values in statements:
                    connection.executemany(numbered(sql), values)
        except Exception as error:  # the caller raises it
            return error
        return None

    def _migrate(self, migrations: Sequence[Migration]) -> None:
        with _translated_errors(self._path):
            _bring_forward(self._connection(), migrations)

    def _connection(self) -> sqlite3.Connection:
        """The connection of this thread, to the file that is at the path now."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            return self._open()
        if self._is_current():
            return found
        if self._migrations:  # the process that writes; first, so that a failure is tried again
            with closing(self._connect()) as connection:
                _bring_forward(connection, self._migrations)
        self._connections.remove(found)
        found.close()
        self._local.connection = None
        return self._open()

    def _open(self) -> sqlite3.Connection:
        opened = self._local.connection = self._connect()
        self._local.file = self._file()
        self._connections.append(opened)
        return opened

    def _is_current(self) -> bool:
        """Whether this thread's file is the one at the path. What is written to a deleted one is lost."""
        return self._local.file is not None and self._local.file == self._file()

    def _file(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        if not self._read_only:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        uri = f"file:{quote(str(self._path))}?mode={'ro' if self._read_only else 'rwc'}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if not self._read_only:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # with WAL, NORMAL may lose the last commits
            connection.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        for threads in (self._writer, self._readers):
            threads.shutdown()
        for connection in self._connections:
            connection.close()


def _bring_forward(opened: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    with _transaction(opened) as connection:
        connection.execute(CREATE_VERSION_TABLE)
        row = connection.execute(READ_VERSION).fetchone()
        found, known = row[0] if row else 0, migrations[-1].version
        if found == known:
            return
        if found > known:
            raise IncompatibleSchema(newer(found, known))
        for migration in missing(found, migrations):
            for statement in migration.statements:
                connection.execute(statement.format(**TYPES))
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES (?)", (known,))


@lru_cache(maxsize=256)
def numbered(sql: str) -> str:
    """$1 is a name for SQLite; ?1 is the first parameter."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def _finish(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.cancelled():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(None)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """IMMEDIATE takes the write lock first: a second writer waits instead of failing in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeError) as error:
        raise StoreRefused(f"SQLite refused the values: {error}") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"{path}: {error}") from error
