"""The store of results on either database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

from gpu_runtime.serverless.results import paging, rows, statements
from gpu_runtime.serverless.results.base import Batch, BodyPart, DeadLetterQuery, Deleted, FinishedRun, RunQuery
from gpu_runtime.serverless.results.database import (
    Database,
    IncompatibleSchema,
    Row,
    Statement,
    StoreRefused,
    StoreUnavailable,
    Value,
)
from gpu_runtime.serverless.results.migrations import MIGRATIONS, READ_VERSION, newer
from gpu_runtime.serverless.results.records import DeadLetter, Page, StoredRun
from gpu_runtime.serverless.subjects import Function, Run

END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Reader:
    """Implements ResultReader."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._compatible = False

    async def get(self, run: Run) -> StoredRun | None:
        found = await self._fetch(statements.GET, *rows.key(run))
        return rows.stored_run(found[0]) if found else None

    async def get_last(self, function: Function, invocation_id: str) -> StoredRun | None:
        found = await self._fetch(statements.GET_LAST, function.namespace, function.name, invocation_id)
        return rows.stored_run(found[0]) if found else None

    async def find(self, invocation_id: str) -> list[Function]:
        return [Function(*row) for row in await self._fetch(statements.FIND, invocation_id)]

    async def list_runs(self, query: RunQuery) -> Page[StoredRun]:
        found = await self._fetch(*_sql(*statements.list_runs(query, paging.decode(query, paging.RunPosition))))
        items = [rows.stored_run(row) for row in found[: query.limit]]
        if len(found) <= query.limit:
            return Page(items, None)
        last = items[-1]
        return Page(
            items, paging.encode(query, paging.RunPosition(rows.to_micros(last.accepted_at), *rows.key(last.run)))
        )

    async def body(self, run: Run, part: BodyPart) -> bytes | None:
        found = await self._fetch(statements.GET_BODY, *rows.key(run), part)
        return found[0][0] if found else None

    async def list_dead_letters(self, query: DeadLetterQuery) -> Page[DeadLetter]:
        after = paging.decode(query, paging.DeadLetterPosition)
        found = await self._fetch(*_sql(*statements.list_dead_letters(query, after)))
        items = [rows.dead_letter(row) for row in found[: query.limit]]
        if len(found) <= query.limit:
            return Page(items, None)
        last = paging.DeadLetterPosition(rows.to_micros(items[-1].failed_at), items[-1].id)
        return Page(items, paging.encode(query, last))

    async def get_dead_letter(self, dead_letter: str) -> DeadLetter | None:
        found = await self._fetch(statements.GET_DEAD_LETTER, dead_letter)
        return rows.dead_letter(found[0]) if found else None

    async def close(self) -> None:
        await self._database.close()

    async def _fetch(self, sql: str, *values: Value) -> list[Row]:
        if not self._compatible:
            await self._check_schema()
        try:
            return await self._database.fetch(sql, *values)
        except StoreRefused:
            return []  # no row can have a value that the database does not take, such as half a character

    async def _check_schema(self) -> None:
        """A reader never changes the schema, so it must wait for a result store of its own release."""
        try:
            found = await self._database.fetch(READ_VERSION)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"cannot read results (has the result store started?): {error}") from error
        version, known = found[0][0] if found else 0, MIGRATIONS[-1].version
        if version > known:
            raise IncompatibleSchema(newer(version, known))
        if version < known:
            raise IncompatibleSchema(
                f"the database has schema version {version}; the result store must bring it to {known}"
            )
        self._compatible = True


class Store(Reader):
    """Implements ResultStore."""

    async def migrate(self) -> None:
        await self._database.migrate(MIGRATIONS)
        self._compatible = True

    async def save(self, batch: Batch) -> None:
        # Sorted: two writers that touch the same rows in the same order cannot wait for each other.
        touched = sorted(
            {rows.key(each.run) for each in batch.acceptances} | {rows.key(each.message.of) for each in batch.ends}
        )
        acceptances = sorted(rows.acceptance_values(each) for each in batch.acceptances)
        ends = sorted(rows.end_values(each) for each in batch.ends)
        dead = sorted(rows.key(each.message.of) for each in batch.ends if each.message.state == "dead_lettered")
        letters = sorted(
            (rows.dead_letter_values(each) for each in batch.dead_letters), key=lambda values: str(values[0])
        )
        await self._database.write(
            [
                Statement(sql, values)
                for sql, values in (
                    (statements.PURGE_AGAIN, touched),
                    (statements.SAVE_ACCEPTANCE, acceptances),
                    (statements.SAVE_END, ends),
                    (statements.SAVE_RUN_DEAD_LETTER, dead),
                    (statements.SAVE_DEAD_LETTER, letters),
                )
                if values
            ]
        )

    async def save_body(self, run: Run, part: BodyPart, content: bytes) -> None:
        values = (*rows.key(run), part, len(content), content)
        await self._database.write([Statement(statements.SAVE_BODY, [values])])

    async def finished(self, ended_before: datetime, limit: int) -> list[FinishedRun]:
        found = await self._fetch(statements.FINISHED, rows.to_micros(ended_before), limit)
        return [FinishedRun(rows.from_key(row), row[4], bool(row[5]), bool(row[6]), bool(row[7])) for row in found]

    async def mark_purged(self, runs: Sequence[Run]) -> None:
        await self._database.write([Statement(statements.MARK_PURGED, sorted(rows.key(run) for run in runs))])

    async def delete_oldest(
        self, limit: int, *, ended_before: datetime | None = None, size: int | None = None
    ) -> Deleted:
        before = rows.to_micros(ended_before or END_OF_TIME)
        runs = [
            _Old(row[4], int(row[5]), run=tuple(row[:4]))
            for row in await self._fetch(statements.OLDEST_RUNS, before, limit)
        ]
        letters = [
            _Old(row[1], int(row[2]), letter=row[0])
            for row in await self._fetch(statements.OLDEST_DEAD_LETTERS, before, limit)
        ]
        oldest = _first(sorted([*runs, *letters], key=lambda each: each.ended_at)[:limit], size)
        keys = sorted(each.run for each in oldest if each.run is not None)
        ids = sorted(each.letter for each in oldest if each.letter is not None)
        changes = [Statement(sql, keys) for sql in statements.DELETE_RUN if keys]
        if ids:
            changes.append(Statement(statements.DELETE_DEAD_LETTER, [(letter,) for letter in ids]))
        if changes:
            await self._database.write(changes)
        return Deleted(len(keys), len(ids), sum(each.size for each in oldest))

    async def size(self) -> int:
        return int((await self._fetch(statements.SIZE))[0][0])


class _Old(NamedTuple):
    """A run or a dead letter that may be deleted."""

    ended_at: int
    size: int
    run: tuple[Value, ...] | None = None
    letter: str | None = None


def _first(oldest: list[_Old], size: int | None) -> list[_Old]:
    """As many as have this size together; all if there is no size."""
    for count, so_far in enumerate(accumulate(each.size for each in oldest), 1):
        if size is not None and so_far >= size:
            return oldest[:count]
    return oldest


def _sql(sql: str, values: list[Value]) -> tuple[str, *tuple[Value, ...]]:
    return sql, *values
