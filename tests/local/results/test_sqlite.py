"""What only SQLite can do: share a file between processes, and commit in groups."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from equipment.mutation import mutant
from equipment.nats import running_nats
from equipment.queue import end
from equipment.results import ResultDatabase, a_result, a_run, an_acceptance
from equipment.waiting import eventually
from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.results import sqlite
from gpu_runtime.serverless.results.base import Batch, RunQuery, StoreRefused, StoreUnavailable
from gpu_runtime.serverless.results.database import Statement
from gpu_runtime.serverless.results.opening import open_reader, open_store
from gpu_runtime.serverless.results.sqlite import SqliteDatabase
from local.results.process import StoreProcess

SQLITE = "serverless/results/sqlite.py"
INSERT = "INSERT INTO t VALUES ($1)"


def path_of(database: ResultDatabase) -> Path:
    assert database.settings.database is not None
    return Path(database.settings.database.removeprefix("sqlite:///"))


async def is_stored(database: ResultDatabase) -> bool:
    async with database.reader() as reader:
        try:
            return await reader.get(a_run()) is not None
        except StoreUnavailable:
            return False


@pytest.fixture
async def table(tmp_path: Path) -> SqliteDatabase:
    database = SqliteDatabase(tmp_path / "t.db")
    await database.write([Statement("CREATE TABLE t (n INTEGER PRIMARY KEY)", [()])])
    return database


@mutant(SQLITE, "if error is not None and len(jobs) > 1 else error", "if False else error")
async def test_a_refused_write_does_not_fail_the_writes_that_wait_with_it(table: SqliteDatabase) -> None:
    writes = [table.write([Statement(INSERT, [(number,)])]) for number in (1, 2, 2**70, 3, 3)]

    outcomes = await asyncio.gather(*writes, return_exceptions=True)

    assert [type(each) for each in outcomes] == [type(None), type(None), StoreRefused, type(None), StoreRefused]
    assert [row[0] for row in await table.fetch("SELECT n FROM t ORDER BY n")] == [1, 2, 3]
    await table.close()


async def test_a_write_with_a_refused_part_leaves_nothing(table: SqliteDatabase) -> None:
    with pytest.raises(StoreRefused):
        await table.write([Statement(INSERT, [(1,)]), Statement(INSERT, [(1,)])])

    assert await table.fetch("SELECT n FROM t") == []
    await table.close()


@mutant(SQLITE, "if self._is_current():", "if True:")
async def test_a_reader_follows_when_the_file_was_replaced(table: SqliteDatabase, tmp_path: Path) -> None:
    reader = SqliteDatabase(tmp_path / "t.db", read_only=True)
    assert await reader.fetch("SELECT n FROM t") == []
    await table.close()
    (tmp_path / "t.db").unlink()
    with pytest.raises(StoreUnavailable):
        await reader.fetch("SELECT n FROM t")

    new = SqliteDatabase(tmp_path / "t.db")
    await new.write([Statement("CREATE TABLE t (n INTEGER PRIMARY KEY)", [()]), Statement(INSERT, [(1,)])])

    assert await reader.fetch("SELECT n FROM t") == [(1,)]
    await reader.close()
    await new.close()


@mutant(SQLITE, "if self._migrations:", "if False:")
async def test_a_store_goes_on_in_a_new_file_when_somebody_deleted_its_own(database: ResultDatabase) -> None:
    async with database.store() as store:
        batch = Batch(acceptances=[an_acceptance(a_run())])
        await store.save(batch)
        for file in path_of(database).parent.glob(f"{path_of(database).name}*"):
            file.unlink()
        await store.save(batch)
        assert await is_stored(database)


async def test_a_long_read_is_ended(table: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "READ_SECONDS", 0.05)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"

    with pytest.raises(StoreUnavailable, match="interrupted"):
        await table.fetch(endless)

    assert await table.fetch("SELECT COUNT(*) FROM t") == [(0,)]
    await table.close()


async def test_a_write_waits_while_another_process_writes(
    database: ResultDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    async with database.store() as store:
        other = sqlite3.connect(path_of(database), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.save(Batch([an_acceptance(a_run())]))
        assert await store.get(a_run()) is None  # readers do not wait
        other.execute("ROLLBACK")
        other.close()

        await store.save(Batch([an_acceptance(a_run())]))

        assert await store.get(a_run()) is not None


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_results_can_be_read_while_the_result_store_is_down(
    tmp_path: Path, database: ResultDatabase, how: str
) -> None:
    if how == "closed":
        async with database.store() as store:
            await store.save(Batch([an_acceptance(a_run())]))
    else:
        async with running_nats(tmp_path) as server, server.connection() as broker:
            await end(broker, a_result(a_run()))
            with StoreProcess(tmp_path / "replica", server, database).running():
                await eventually(lambda: is_stored(database), what="the end is stored")

    async with database.reader() as reader:
        assert [each.run for each in (await reader.list_runs(RunQuery())).items] == [a_run()]


async def test_a_file_that_is_not_a_database_is_reported_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "results.db"
    file.write_bytes(b"this is not a database, it is a text" * 100)
    store = open_store(ResultsSettings(database=f"sqlite:///{file}"))
    try:
        with pytest.raises(StoreUnavailable, match=r"results\.db: file is not a database"):
            await store.migrate()
    finally:
        await store.close()


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(ResultsSettings(database=f"sqlite:///{tmp_path}/file/results.db"))
    try:
        with pytest.raises(StoreUnavailable, match="File exists"):
            await store.migrate()
    finally:
        await store.close()


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    open_reader(ResultsSettings(database=f"sqlite:///{tmp_path}/results.db"))

    assert list(tmp_path.iterdir()) == []


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"results\.database is not set"):
        open_store(ResultsSettings())
    missing = ResultsSettings(database="postgresql://results@db/results", passwordFile=f"{tmp_path}/none")
    with pytest.raises(ConfigError, match=r"passwordFile: .*none cannot be read: No such file"):
        open_store(missing)
    untrusted = ResultsSettings(
        database="postgresql://results@db/results", tlsMode="verify-full", caFile=f"{tmp_path}/none"
    )
    with pytest.raises(ConfigError, match="caFile"):
        open_store(untrusted)
    with pytest.raises(ConfigError, match="not an address"):
        open_store(ResultsSettings(database="postgresql://results@[db/results"))
