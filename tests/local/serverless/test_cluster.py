"""The write that decides, on a broker of three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from equipment.nats import NatsServer
from equipment.nats_cluster import NatsCluster, leader, running_nats_cluster
from equipment.nats_credentials import connected
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError, NoAnswer, NotConfigured
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.credentials.__main__ import main
from gpu_runtime.serverless.credentials.files import CredentialFiles
from gpu_runtime.serverless.credentials.signing import AccountSigner, worker_credentials
from gpu_runtime.serverless.subjects import Function, Priority, Run
from gpu_runtime.supervisor.files import write_private

ECHO = Function("runtime-instance", "echo")
ROUNDS = 20
PUBLISHERS = 4  # on each node and for each priority
PRIORITIES: tuple[Priority, ...] = ("normal", "high")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[NatsCluster]:
    async with running_nats_cluster(tmp_path) as running:
        yield running


async def submit(broker: Broker, run: Run, priority: Priority) -> int | None:
    """Publishes until the broker answers. A lost answer is asked for again, so None may mean that this one won."""
    while True:
        try:
            return await publish_once(
                broker, subjects.accepted(run, priority), b"{}", free=subjects.accepted_any(run), seconds=2
            )
        except (NoAnswer, NotConfigured):  # nobody answers while the nodes elect another leader
            await broker.connected()


async def connections(stack: AsyncExitStack, nodes: list[NatsServer]) -> list[Broker]:
    """One connection to each node, so that publishers race through all of them."""
    return [await stack.enter_async_context(connected(node.settings, f"to {node.port}")) for node in nodes]


async def test_one_of_many_publishers_wins_through_whichever_node(cluster: NatsCluster) -> None:
    async with AsyncExitStack() as stack:
        brokers = await connections(stack, cluster.nodes)
        for number in range(ROUNDS):
            run = Run(ECHO, f"inv-{number}", 1)
            stored = await asyncio.gather(
                *(
                    submit(broker, run, priority)
                    for broker in brokers
                    for priority in PRIORITIES
                    for _ in range(PUBLISHERS)
                )
            )
            assert len([sequence for sequence in stored if sequence is not None]) == 1, stored


async def test_no_second_publisher_wins_while_the_leader_is_killed(cluster: NatsCluster) -> None:
    async with connected(cluster.settings, "reader") as reader:
        name = await eventually(lambda: leader(reader, INVOCATIONS), what="the stream has a leader")
        others = [node for node in cluster.nodes if node is not cluster.node(name)]
        async with AsyncExitStack() as stack:
            brokers = await connections(stack, others)

            async def race(number: int) -> None:
                run = Run(ECHO, f"inv-{number}", 1)
                racing = [submit(broker, run, priority) for broker in brokers for priority in PRIORITIES]
                if number == ROUNDS // 2:
                    cluster.node(name).kill()
                stored = await asyncio.gather(*racing)
                won = [sequence for sequence in stored if sequence is not None]
                assert len(won) <= 1, stored
                kept = await eventually(lambda: kept_of(brokers[0], run), what=f"{run} is stored")
                assert won in ([], [kept]), "the winner was told another sequence than the stored one"

            for number in range(ROUNDS):
                await race(number)
            cluster.node(name).start()
            for number in range(ROUNDS):
                run = Run(ECHO, f"inv-{number}", 1)
                assert await submit(brokers[0], run, "normal") is None, "the node that came back has it, too"


async def kept_of(broker: Broker, run: Run) -> int | None:
    try:
        stored = await last(broker, INVOCATIONS, subjects.accepted_any(run))
    except BrokerError as error:  # while another leader is elected
        raise AssertionError(str(error)) from error
    return stored.sequence if stored is not None else None


async def test_three_nodes_accept_the_credentials_that_the_command_makes(tmp_path: Path) -> None:
    files = CredentialFiles(tmp_path / "credentials")
    assert main([str(files.folder)]) == 0
    accounts, api = files.accounts.read_text(), files.credentials("runtime-api")
    async with running_nats_cluster(tmp_path, extra=accounts, credentials=api) as cluster:
        path = tmp_path / "worker.creds"
        write_private(path, worker_credentials(AccountSigner.read(files.signing_key), ECHO, issued=0).text.encode())
        settings = replace(cluster.settings, credentialsFile=str(path))
        run = Run(ECHO, "inv-1", 1)
        async with connected(settings, "worker") as worker:
            assert await publish_once(worker, subjects.ended(run), b"{}") is not None
        async with connected(cluster.settings, "runtime-api") as reader:
            assert await last(reader, RESULTS, subjects.ended(run)) is not None
        async with Broker(replace(settings, credentialsFile=None), "nobody") as nobody:
            await eventually(lambda: "Authorization Violation" in nobody.problem, what="others are refused")


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    assert main([]) == "usage: python -m gpu_runtime.serverless.credentials FOLDER"
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file")]) == f"{tmp_path / 'file'} cannot be used: File exists"
    (tmp_path / "keys.json").write_text("{}")
    assert main([str(tmp_path)]) == f"{tmp_path / 'keys.json'}: it is not a key ring"
