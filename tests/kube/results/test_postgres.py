"""What only PostgreSQL can do: go away and come back, ask for a password, and be shared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from equipment.nats import NatsServer, free_port
from equipment.postgres import PASSWORD, PostgresServer, running_postgres
from equipment.queue import accept, end
from equipment.results import ResultDatabase, a_result, a_run, an_acceptance, an_invocation
from equipment.waiting import eventually
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.results.base import Batch, RunQuery, StoreUnavailable
from gpu_runtime.serverless.results.opening import open_reader, open_store
from local.results.process import StoreProcess
from local.results.test_consuming import broker, everything_is_stored, server

__all__ = ["broker", "server"]


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server for one test, which may kill it."""
    with running_postgres() as running:
        yield running


async def problems(port: int) -> dict[str, str]:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                found: dict[str, str] = (await answer.json())["problems"]
                return found
        except aiohttp.ClientError:
            return {"process": "does not answer"}


async def test_nothing_is_lost_when_postgres_is_killed_again_and_again(
    tmp_path: Path, mortal: PostgresServer, server: NatsServer, broker: Broker
) -> None:
    database = ResultDatabase(mortal.fresh_schema())
    replicas = [StoreProcess(tmp_path / f"replica-{number}", server, database, ackWaitSeconds=2) for number in range(2)]
    with replicas[0].running(), replicas[1].running():
        await eventually(lambda: ready(replicas[0]), what="the process is ready")
        for number in range(300):
            if number % 100 == 50:
                await asyncio.to_thread(mortal.kill)
            await accept(broker, an_invocation(a_run(f"inv-{number}")))
            await end(broker, a_result(a_run(f"inv-{number}"), "failed", error=f"error {number}"))
            if number % 100 == 90:
                await eventually(lambda: unready(replicas[0]), what="the process says that the database is gone")
                mortal.start()
                await asyncio.to_thread(mortal.wait_until_it_answers)
        await everything_is_stored(broker)
        await eventually(lambda: ready(replicas[0]), what="the process is ready again")

    async with database.reader() as reader:
        page = await reader.list_runs(RunQuery(limit=1000))
    errors = {each.run.invocation_id: each.end.error for each in page.items if each.end and each.acceptance}
    assert errors == {f"inv-{number}": f"error {number}" for number in range(300)}
    for replica in replicas:
        assert PASSWORD not in replica.log.read_text()


async def unready(replica: StoreProcess) -> bool:
    found = await problems(replica.health.port)
    assert PASSWORD not in str(found)
    return "PostgreSQL at 127.0.0.1" in found.get("database", "")


async def ready(replica: StoreProcess) -> bool:
    return not await problems(replica.health.port)


async def test_a_store_goes_on_with_the_same_object_after_postgres_was_killed(mortal: PostgresServer) -> None:
    database = ResultDatabase(mortal.fresh_schema())
    async with database.store() as store, database.reader() as reader:
        await store.save(Batch([an_acceptance(a_run("before"))]))
        assert await reader.get(a_run("before")) is not None
        await asyncio.to_thread(mortal.kill)
        with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1"):
            await store.save(Batch([an_acceptance(a_run("during"))]))
        with pytest.raises(StoreUnavailable):
            await reader.get(a_run("before"))
        mortal.start()
        await asyncio.to_thread(mortal.wait_until_it_answers)

        async def saved() -> bool:
            try:
                await store.save(Batch([an_acceptance(a_run("after"))]))
            except StoreUnavailable:
                return False
            return True

        await eventually(saved, what="the store writes again")
        assert await reader.get(a_run("before")) is not None
        assert await reader.get(a_run("after")) is not None


async def test_a_wrong_password_is_reported_without_showing_it(postgres: PostgresServer, tmp_path: Path) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("not the password\n")
    settings = msgspec.structs.replace(postgres.fresh_schema(), passwordFile=str(wrong))
    store = open_store(settings)
    try:
        with pytest.raises(StoreUnavailable, match="password authentication failed") as caught:
            await store.migrate()
        assert "not the password" not in repr(caught.value)
    finally:
        await store.close()


async def test_one_of_several_servers_that_answers_is_used(postgres: PostgresServer) -> None:
    settings = postgres.fresh_schema()
    assert settings.database is not None
    several = settings.database.replace("@", f"@127.0.0.1:{free_port()},")
    async with ResultDatabase(msgspec.structs.replace(settings, database=several)).store() as store:
        await store.save(Batch([an_acceptance(a_run())]))


async def test_a_changed_password_is_read_again(postgres: PostgresServer, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old\n")
    store = open_store(msgspec.structs.replace(postgres.fresh_schema(), passwordFile=str(file)))
    try:
        with pytest.raises(StoreUnavailable):
            await store.migrate()
        file.write_text(PASSWORD)
        await store.migrate()
        file.unlink()
        await store.save(Batch([an_acceptance(a_run())]))  # on the connection that is there
    finally:
        await store.close()


async def test_a_reader_cannot_write(database: ResultDatabase) -> None:
    async with database.store():
        reader = open_reader(database.settings)
        try:
            with pytest.raises(StoreUnavailable, match="read-only"):
                await reader._database.migrate([])  # type: ignore[attr-defined]
        finally:
            await reader.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://results:secret@127.0.0.1:5432/results",
        "postgresql://results@127.0.0.1:5432/results?password=secret",
        "postgresql://results@127.0.0.1:5432/results?pass%77ord=secret",
    ],
)
def test_a_password_in_the_address_is_refused_without_showing_it(postgres: PostgresServer, address: str) -> None:
    with pytest.raises(ConfigError, match="passwordFile") as caught:
        open_store(msgspec.structs.replace(postgres.fresh_schema(), database=address))
    assert "secret" not in str(caught.value)
