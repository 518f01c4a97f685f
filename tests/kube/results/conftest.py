"""PostgreSQL comes from Debian's packages, which only this tier and the fault tests install."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipment.postgres import PostgresServer, running_postgres
from equipment.results import ResultDatabase

pytest.register_assert_rewrite(
    "local.results.test_consuming",
    "local.results.test_contract",
    "local.results.test_housekeeping",
    "local.results.test_schema",
)


@pytest.fixture(scope="package")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    assert terminal is not None
    with running_postgres(terminal.write_line) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> ResultDatabase:
    return ResultDatabase(postgres.fresh_schema())
