"""The schema. Migrations only go forward; each is executed once for a database, whatever the number of replicas.

A migration must leave every statement of the release before it valid: while a Deployment rolls, replicas of both
releases write. So add tables and nullable columns; remove a column one release after the last statement that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CREATE_VERSION_TABLE = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"
READ_VERSION = "SELECT version FROM schema_version"


class Migration(NamedTuple):
    """Statements with {blob} and {text}, the databases' own types. {text} sorts by bytes in both."""

    version: int
    statements: tuple[str, ...]


# Times are microseconds since the epoch. `invocation`, `result` and `details` are JSON without payload and body.
_RUNS = """
CREATE TABLE runs (
    namespace {text} NOT NULL,
    function {text} NOT NULL,
    id {text} NOT NULL,
    run INTEGER NOT NULL,
    accepted_at BIGINT NOT NULL,
    state {text} NOT NULL DEFAULT 'queued',
    ended_at BIGINT,
    purged SMALLINT NOT NULL DEFAULT 0,
    large_payload SMALLINT NOT NULL DEFAULT 0,
    large_result SMALLINT NOT NULL DEFAULT 0,
    size BIGINT NOT NULL,
    invocation {blob},
    result {blob},
    payload {blob},
    body {blob},
    PRIMARY KEY (namespace, function, id, run)
)"""
_DEAD_LETTERS = """
CREATE TABLE dead_letters (
    letter {text} NOT NULL PRIMARY KEY,
    failed_at BIGINT NOT NULL,
    source {text} NOT NULL,
    namespace {text},
    function {text},
    id {text},
    run INTEGER,
    size BIGINT NOT NULL,
    details {blob},
    content {blob}
)"""
_BODIES = """
CREATE TABLE bodies (
    namespace {text} NOT NULL,
    function {text} NOT NULL,
    id {text} NOT NULL,
    run INTEGER NOT NULL,
    part {text} NOT NULL,
    size BIGINT NOT NULL,
    content {blob} NOT NULL,
    PRIMARY KEY (namespace, function, id, run, part)
)"""
MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        (
            _RUNS,
            # Lists of one function and of everything, each also of one state; the key makes the order total.
            "CREATE INDEX runs_by_function ON runs (namespace, function, accepted_at, id, run)",
            "CREATE INDEX runs_by_function_and_state ON runs (namespace, function, state, accepted_at, id, run)",
            "CREATE INDEX runs_by_time ON runs (accepted_at, namespace, function, id, run)",
            "CREATE INDEX runs_by_state ON runs (state, accepted_at, namespace, function, id, run)",
            "CREATE INDEX runs_by_id ON runs (id)",
            "CREATE INDEX runs_to_purge ON runs (ended_at) WHERE purged = 0 AND ended_at IS NOT NULL",
            "CREATE INDEX runs_to_delete ON runs (ended_at) WHERE purged = 1",
            _DEAD_LETTERS,
            "CREATE INDEX dead_letters_by_time ON dead_letters (failed_at, letter)",
            "CREATE INDEX dead_letters_by_function ON dead_letters (namespace, function, failed_at, letter)",
            _BODIES,
        ),
    ),
)


def newer(found: int, known: int) -> str:
    """The words about a schema that a newer release made."""
    return (
        f"the database has schema version {found}, and this release knows versions up to {known}: "
        "run the release that made it, or a newer one"
    )


def missing(found: int, migrations: Sequence[Migration]) -> list[Migration]:
    return [migration for migration in migrations if migration.version > found]
