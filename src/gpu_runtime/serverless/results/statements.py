"""The SQL of the store. One text for SQLite and PostgreSQL."""
# ruff: noqa: S608  statements are put together from constants; values are always parameters

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_runtime.serverless.results import rows
from gpu_runtime.serverless.results.base import DeadLetterQuery, RunQuery
from gpu_runtime.serverless.results.database import Value
from gpu_runtime.serverless.results.paging import DeadLetterPosition, RunPosition

ONE_RUN = "namespace = $1 AND function = $2 AND id = $3 AND run = $4"

# The conditions after DO UPDATE keep the first record: an acceptance or end that is stored never changes.
SAVE_ACCEPTANCE = """
INSERT INTO runs (namespace, function, id, run, accepted_at, large_payload, size, invocation, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (namespace, function, id, run) DO UPDATE
SET invocation = excluded.invocation, payload = excluded.payload, large_payload = excluded.large_payload,
    size = runs.size + excluded.size
WHERE runs.invocation IS NULL"""
SAVE_END = """
INSERT INTO runs (namespace, function, id, run, accepted_at, state, ended_at, large_result, size, result, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (namespace, function, id, run) DO UPDATE
SET state = excluded.state, ended_at = excluded.ended_at, large_result = excluded.large_result,
    result = excluded.result, body = excluded.body, size = runs.size + excluded.size
WHERE runs.ended_at IS NULL"""
# For a message that arrived after its run was purged from the broker: it must be purged, too.
PURGE_AGAIN = f"UPDATE runs SET purged = 0 WHERE {ONE_RUN} AND purged = 1"
# Reads the end that is stored, which may be another one than the batch has.
SAVE_RUN_DEAD_LETTER = f"""
INSERT INTO dead_letters (letter, failed_at, source, namespace, function, id, run, size, details)
SELECT namespace || '.' || function || '.' || id || '.' || CAST(run AS TEXT), ended_at, 'run',
       namespace, function, id, run, {rows.ROW_BYTES}, result
FROM runs WHERE {ONE_RUN} AND state = 'dead_lettered'
ON CONFLICT (letter) DO NOTHING"""
SAVE_DEAD_LETTER = """
INSERT INTO dead_letters (letter, failed_at, source, namespace, function, id, run, size, details, content)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (letter) DO NOTHING"""

SAVE_BODY = """
INSERT INTO bodies (namespace, function, id, run, part, size, content) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (namespace, function, id, run, part) DO NOTHING"""
GET_BODY = f"SELECT content FROM bodies WHERE {ONE_RUN} AND part = $5"

RUN_COLUMNS = "namespace, function, id, run, accepted_at, invocation, result"
GET = f"SELECT {RUN_COLUMNS}, payload, body FROM runs WHERE {ONE_RUN}"
GET_LAST = f"""
SELECT {RUN_COLUMNS}, payload, body FROM runs
WHERE namespace = $1 AND function = $2 AND id = $3 ORDER BY run DESC LIMIT 1"""
FIND = "SELECT DISTINCT namespace, function FROM runs WHERE id = $1 ORDER BY namespace, function LIMIT 100"

REDRIVEN = """EXISTS (SELECT 1 FROM runs AS later WHERE later.namespace = d.namespace AND later.function = d.function
    AND later.id = d.id AND later.run = d.run + 1)"""
DEAD_LETTER_COLUMNS = f"letter, failed_at, source, namespace, function, id, run, {REDRIVEN}, details"
GET_DEAD_LETTER = f"SELECT {DEAD_LETTER_COLUMNS}, content FROM dead_letters AS d WHERE letter = $1"

FINISHED = """
SELECT namespace, function, id, run, state, invocation IS NOT NULL, large_payload + large_result > 0,
large_payload = 1 AND NOT EXISTS (
    SELECT 1 FROM bodies AS b WHERE b.namespace = r.namespace AND b.function = r.function AND b.id = r.id
    AND b.run = r.run AND b.part = 'payload')
FROM runs AS r WHERE purged = 0 AND ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at LIMIT $2"""
MARK_PURGED = f"UPDATE runs SET purged = 1 WHERE {ONE_RUN}"

OLDEST_RUNS = """
SELECT namespace, function, id, run, ended_at, size + (
    SELECT COALESCE(SUM(b.size), 0) FROM bodies AS b WHERE b.namespace = r.namespace AND b.function = r.function
    AND b.id = r.id AND b.run = r.run)
FROM runs AS r WHERE purged = 1 AND ended_at < $1 ORDER BY ended_at LIMIT $2"""
# The dead letter of a run goes with its run.
OLDEST_DEAD_LETTERS = """
SELECT letter, failed_at, size FROM dead_letters AS d WHERE failed_at < $1 AND (source <> 'run' OR NOT EXISTS (
    SELECT 1 FROM runs AS r WHERE r.namespace = d.namespace AND r.function = d.function AND r.id = d.id
    AND r.run = d.run))
ORDER BY failed_at LIMIT $2"""
DELETE_RUN = (
    f"DELETE FROM runs WHERE {ONE_RUN}",
    f"DELETE FROM bodies WHERE {ONE_RUN}",
    f"DELETE FROM dead_letters WHERE {ONE_RUN} AND source = 'run'",
)
DELETE_DEAD_LETTER = "DELETE FROM dead_letters WHERE letter = $1"
SIZE = """
SELECT (SELECT COALESCE(SUM(size), 0) FROM runs) + (SELECT COALESCE(SUM(size), 0) FROM bodies)
     + (SELECT COALESCE(SUM(size), 0) FROM dead_letters)"""


@dataclass
class Conditions:
    """Conditions with their parameters, in order."""

    words: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add(self, condition: str, *values: Value) -> None:
        """`condition` has a `?` for each value."""
        for value in values:
            self.values.append(value)
            condition = condition.replace("?", f"${len(self.values)}", 1)
        self.words.append(condition)

    def where(self) -> str:
        return f"WHERE {' AND '.join(self.words)}" if self.words else ""


def list_runs(query: RunQuery, after: RunPosition | None) -> tuple[str, list[Value]]:
    conditions = Conditions()
    if query.namespace is not None:
        conditions.add("namespace = ?", query.namespace)
    if query.function is not None:
        conditions.add("function = ?", query.function)
    if query.state is not None:
        conditions.add("state = ?", query.state)
    if query.accepted_from is not None:
        conditions.add("accepted_at >= ?", rows.to_micros(query.accepted_from))
    if query.accepted_before is not None:
        conditions.add("accepted_at < ?", rows.to_micros(query.accepted_before))
    if after is not None:
        conditions.add("(accepted_at, namespace, function, id, run) < (?, ?, ?, ?, ?)", *after)
    if not query.all_runs:
        conditions.add(
            "NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.namespace = r.namespace"
            " AND later.function = r.function AND later.id = r.id AND later.run > r.run)"
        )
    order = "accepted_at DESC, namespace DESC, function DESC, id DESC, run DESC"
    sql = f"SELECT {RUN_COLUMNS}, NULL, NULL FROM runs AS r {conditions.where()} ORDER BY {order}"
    return f"{sql} LIMIT {query.limit + 1:d}", conditions.values


def list_dead_letters(query: DeadLetterQuery, after: DeadLetterPosition | None) -> tuple[str, list[Value]]:
    conditions = Conditions()
    if query.namespace is not None:
        conditions.add("namespace = ?", query.namespace)
    if query.function is not None:
        conditions.add("function = ?", query.function)
    if query.source is not None:
        conditions.add("source = ?", query.source)
    if query.redriven is not None:
        conditions.add(REDRIVEN if query.redriven else f"NOT {REDRIVEN}")
    if after is not None:
        conditions.add("(failed_at, letter) < (?, ?)", *after)
    sql = f"SELECT {DEAD_LETTER_COLUMNS}, NULL FROM dead_letters AS d {conditions.where()}"
    return f"{sql} ORDER BY failed_at DESC, letter DESC LIMIT {query.limit + 1:d}", conditions.values
