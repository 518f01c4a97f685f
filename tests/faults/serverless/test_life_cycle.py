"""Thousands of invocations while broker, API, activator, workers and result store are killed: each ends exactly once.

`--soak-rounds=1800` plays for half an hour, `--soak-seed=N` draws other kills.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from equipment import servers
from equipment.nats import NatsServer, free_port
from equipment.nats_cluster import running_nats_cluster
from equipment.postgres import PostgresServer, running_postgres
from equipment.servers import ApiServer
from equipment.soak import Soak
from faults.serverless.installation import Installation, Victim, running
from faults.serverless.life import Life
from gpu_runtime.cmd.up.install import install
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless.broker.connection import Broker

SECONDS = 180
"""The rounds of this test are seconds."""
LONGEST = 4 * 3600  # with --soak-rounds


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with servers.start_embedded(tmp_path) as running_server:
        asyncio.run(install(running_server.kubeconfig))
        yield running_server


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.mark.timeout(LONGEST)
async def test_each_accepted_invocation_ends_once_while_processes_are_killed(
    server: ApiServer, tmp_path: Path, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    nats = NatsServer(tmp_path / "nats", free_port())
    nats.start()
    try:
        await nats.wait_until_it_answers()
        results = {"database": f"sqlite:///{tmp_path}/results.db"}
        installation = Installation(tmp_path, server.kubeconfig, settings(nats.settings), results, {"broker": nats})
        told = await live(installation, Broker(nats.settings, "judge"), soak, "one broker")
    finally:
        nats.kill()
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n")


@pytest.mark.timeout(LONGEST)
async def test_each_accepted_invocation_ends_once_while_nodes_of_the_broker_are_killed(
    server: ApiServer, tmp_path: Path, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    """One node at a time: two of three are always there, and nothing that they answered may be lost."""
    async with running_nats_cluster(tmp_path / "cluster") as cluster:
        nodes: dict[str, Victim] = {f"broker-{number}": node for number, node in enumerate(cluster.nodes)}
        results = {"database": f"sqlite:///{tmp_path}/results.db"}
        installation = Installation(
            tmp_path, server.kubeconfig, settings(cluster.settings), results, nodes, replicas=len(cluster.nodes)
        )
        told = await live(installation, Broker(cluster.settings, "judge"), soak, "three brokers", seconds=45)
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n")


@pytest.mark.timeout(LONGEST)
async def test_each_accepted_invocation_ends_once_while_postgresql_is_killed(
    server: ApiServer, postgres: PostgresServer, tmp_path: Path, soak: Soak, capsys: pytest.CaptureFixture[str]
) -> None:
    results = msgspec.to_builtins(await asyncio.to_thread(postgres.fresh_schema))
    nats = NatsServer(tmp_path / "nats", free_port())
    nats.start()
    try:
        await nats.wait_until_it_answers()
        # Named twice, so that it is killed more often than the others.
        victims: dict[str, Victim] = {"broker": nats, "postgresql": postgres, "postgresql again": postgres}
        installation = Installation(tmp_path, server.kubeconfig, settings(nats.settings), results, victims)
        told = await live(installation, Broker(nats.settings, "judge"), soak, "postgresql", seconds=45)
    finally:
        nats.kill()
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n")


def settings(nats: NatsSettings) -> dict[str, str]:
    return {"url": ",".join(nats.servers)}


async def live(installation: Installation, broker: Broker, soak: Soak, what: str, *, seconds: int = SECONDS) -> str:
    """Plays one life and judges it. The seed is in the message of a failure."""
    patience = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=patience) as session, running(installation, session):
        life = Life(installation, session, soak.random("life cycle", what))
        try:
            await life.play(soak.rounds(seconds))
            async with broker:
                await broker.connected()
                await life.judge(broker)
        except BaseException as error:
            error.add_note(f"{what}, --soak-seed={soak.seed}: {life.told()}; logs in {installation.folder}")
            raise
        return f"{what}, seed {soak.seed}: {life.told()}"
