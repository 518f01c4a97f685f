"""The file on disk: an append-only log of versions in SQLite, written by one thread with group commit."""

from __future__ import annotations

import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gpu_runtime.local.apiserver.errors import StartError

SCHEMA = 1


class Row(NamedTuple):
    """One version of one object; a removal carries the last body."""

    version: int
    resource: str
    key: str
    deleted: bool
    body: bytes


class Append(NamedTuple):
    """One write. Writes of one epoch may build on each other: after a failure the rest of its epoch fails too."""

    row: Row
    epoch: int
    token: Any


class Drop(NamedTuple):
    """Old versions to delete: no request can read them any more."""

    versions: tuple[int, ...]
    oldest: int


Finished = Callable[[list[Append], Exception | None], None]


class Journal:
    """Appends are answered only once they are on disk; several waiting ones share one fsync."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cluster.db"
        with ExitStack() as on_failure:
            self._lock = _take_lock(folder)
            on_failure.callback(os.close, self._lock)
            self._database = _open(self._path)
            on_failure.pop_all()
        self._work: queue.SimpleQueue[Append | Drop | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._refused_epoch = -1
        self._undropped: list[Drop] = []
        self.oldest = int(self._database.execute("SELECT value FROM facts WHERE name = 'oldest'").fetchone()[0])

    def rows(self) -> Iterator[Row]:
        """Every kept version in order; read once, before the writer starts."""
        query = "SELECT version, resource, key, deleted, body FROM log ORDER BY version"
        for version, resource, key, deleted, body in self._database.execute(query):
            yield Row(version, resource, key, bool(deleted), body)

    def start(self, finished: Finished) -> None:
        """Begins to write; `finished` is called in the writer's thread after each commit."""
        self._thread = threading.Thread(target=self._write, args=(finished,), name="journal", daemon=True)
        self._thread.start()

    @property
    def writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def append(self, work: Append) -> None:
        self._work.put(work)

    def drop(self, work: Drop) -> None:
        self._work.put(work)

    def close(self) -> None:
        """Writes what waits, then closes the file."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
        self._database.close()
        os.close(self._lock)

    def _write(self, finished: Finished) -> None:
        last = False
        while not last and (first := self._work.get()) is not None:
            batch = [first]
            while not self._work.empty():
                more = self._work.get()
                if more is None:
                    last = True
                    break
                batch.append(more)
            self._write_batch(batch, finished)

    def _write_batch(self, batch: list[Append | Drop], finished: Finished) -> None:
        appends = [work for work in batch if isinstance(work, Append)]
        refused = [work for work in appends if work.epoch <= self._refused_epoch]
        fresh = [work for work in appends if work.epoch > self._refused_epoch]
        if refused:
            finished(refused, OSError("a write that this one builds on failed"))
        if fresh:
            failure = self._commit(partial(self._insert, [work.row for work in fresh]))
            if failure is not None:
                self._refused_epoch = fresh[-1].epoch
            finished(fresh, failure)
        self._drop([work for work in batch if isinstance(work, Drop)])

    def _drop(self, drops: list[Drop]) -> None:
        """Deletes old versions from the file, all or nothing.

        If only the row of an object's deletion were dropped, its older rows would bring the object back. When the disk
        refuses, the drops wait for the next batch; until then the file holds more history than is served.
        """
        self._undropped += drops
        if self._undropped and self._commit(partial(self._delete, self._undropped)) is None:
            self._undropped = []

    def _insert(self, rows: list[Row]) -> None:
        self._database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)

    def _delete(self, drops: list[Drop]) -> None:
        for drop in drops:
            self._database.executemany("DELETE FROM log WHERE version = ?", [(one,) for one in drop.versions])
        self._database.execute("UPDATE facts SET value = ? WHERE name = 'oldest'", (drops[-1].oldest,))

    def _commit(self, change: Callable[[], None]) -> Exception | None:
        """Returns any failure instead of raising it: if the writer ended, every later request would wait for ever."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            change()
            self._database.execute("COMMIT")
        except Exception as error:
            with suppress(sqlite3.Error):  # the failure may have ended the transaction already
                self._database.execute("ROLLBACK")
            return error
        return None


def _take_lock(folder: Path) -> int:
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot use data directory {folder}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(handle, 32).decode("ascii", "replace").strip()
        os.close(handle)
        by = f" (process {holder})" if holder else ""
        raise StartError(f"data directory {folder} is in use by another API server{by}") from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def _open(path: Path) -> sqlite3.Connection:
    with ExitStack() as on_failure:
        try:
            old_mask = os.umask(0o077)
            try:
                database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
                on_failure.callback(database.close)
                database.execute("PRAGMA journal_mode = WAL")
            finally:
                os.umask(old_mask)
            _make_tables(database, path)
        except sqlite3.Error as error:
            raise StartError(f"cannot open {path}: {error}") from error
        on_failure.pop_all()
    return database


def _make_tables(database: sqlite3.Connection, path: Path) -> None:
    database.execute("PRAGMA synchronous = FULL")
    found = database.execute("PRAGMA user_version").fetchone()[0]
    if found > SCHEMA:
        raise StartError(f"{path} was written by a newer version (format {found}, this one knows {SCHEMA})")
    if found == 0:
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            "CREATE TABLE log (version INTEGER PRIMARY KEY, resource TEXT, key TEXT, deleted INTEGER, body BLOB)"
        )
        database.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER)")
        database.execute("INSERT INTO facts VALUES ('oldest', 0)")
        database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("COMMIT")
