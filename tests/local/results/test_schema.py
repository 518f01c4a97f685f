"""The schema of either database: made once, brought forward, never back."""

from __future__ import annotations

import asyncio

import pytest

from equipment.results import ResultDatabase, a_run, an_acceptance
from gpu_runtime.serverless.results.base import Batch, IncompatibleSchema, ResultStore
from gpu_runtime.serverless.results.migrations import MIGRATIONS, Migration
from gpu_runtime.serverless.results.store import Store

NEXT = Migration(
    MIGRATIONS[-1].version + 1,
    (
        "CREATE TABLE notes (note {text} NOT NULL, attachment {blob})",
        "ALTER TABLE runs ADD COLUMN colour {text}",
        "INSERT INTO notes (note) SELECT id FROM runs",
    ),
)
BROKEN = Migration(NEXT.version, ("CREATE TABLE notes (note {text} NOT NULL)", "CREATE TABLE this is not SQL"))


async def bring_to(store: ResultStore, *migrations: Migration) -> None:
    assert isinstance(store, Store)
    await store._database.migrate(migrations)


async def notes(store: ResultStore) -> list[str]:
    assert isinstance(store, Store)
    return [row[0] for row in await store._database.fetch("SELECT note FROM notes")]


async def test_replicas_that_start_at_once_make_one_schema(database: ResultDatabase) -> None:
    async def start() -> None:
        async with database.store() as store:
            await store.save(Batch([an_acceptance(a_run())]))

    await asyncio.gather(*(start() for _ in range(8)))

    async with database.reader() as reader:
        assert await reader.get(a_run()) is not None


async def test_a_migration_keeps_the_rows_and_runs_once(database: ResultDatabase) -> None:
    async with database.store() as store, database.store() as second:
        await store.save(Batch([an_acceptance(a_run())]))

        await asyncio.gather(bring_to(store, *MIGRATIONS, NEXT), bring_to(second, *MIGRATIONS, NEXT))
        await bring_to(store, *MIGRATIONS, NEXT)

        assert await notes(store) == ["inv-1"]
        assert await store.get(a_run()) is not None


async def test_a_migration_that_fails_leaves_the_schema_as_it_was(database: ResultDatabase) -> None:
    async with database.store() as store:
        with pytest.raises(Exception, match=r"syntax error"):
            await bring_to(store, *MIGRATIONS, BROKEN)
        await bring_to(store, *MIGRATIONS, NEXT)

        assert await notes(store) == []


async def test_a_newer_schema_is_refused_with_clear_words(database: ResultDatabase) -> None:
    async with database.store() as store:
        await bring_to(store, *MIGRATIONS, NEXT)
        with pytest.raises(IncompatibleSchema, match=f"schema version {NEXT.version}, and this release knows"):
            await store.migrate()
    async with database.reader() as reader:
        with pytest.raises(IncompatibleSchema, match="run the release that made it"):
            await reader.get(a_run())


async def test_a_replica_of_the_release_before_goes_on_while_the_schema_moves(database: ResultDatabase) -> None:
    async with database.store() as old, database.store() as new:
        await old.save(Batch([an_acceptance(a_run("before"))]))
        await bring_to(new, *MIGRATIONS, NEXT)

        await old.save(Batch([an_acceptance(a_run("after"))]))

        assert await old.get(a_run("after")) is not None
