"""A broker that is killed again and again while clients use it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from equipment.mutation import mutant
from equipment.nats_credentials import running_secured_nats
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import RESULTS
from gpu_runtime.serverless.subjects import Function, Run

ECHO = Function("runtime-instance", "echo")
RUNS = 300
KILLS = 4
IN_FLIGHT = 16


async def end(worker: Broker, run: Run) -> None:
    """Publishes the end until the broker says that it is stored, now or before."""
    while True:
        try:
            await publish_once(worker, subjects.ended(run), run.key.encode(), seconds=2)
        except BrokerError:
            await worker.connected()
        else:
            return


async def test_clients_come_back_by_themselves_and_every_end_is_stored_once(tmp_path: Path) -> None:
    async with running_secured_nats(tmp_path) as nats, nats.worker(ECHO) as worker:
        runs = [Run(ECHO, f"inv-{number}", 1) for number in range(RUNS)]
        waiting, done = iter(runs), 0

        async def publish_all() -> None:
            nonlocal done
            for run in waiting:
                await end(worker, run)
                done += 1
                if done % (RUNS // (KILLS + 1)) == 0:
                    nats.server.kill()
                    nats.server.start()

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(publish_all())
        async with nats.role("runtime-api") as api:
            for run in runs:
                stored = await last(api, RESULTS, subjects.ended(run))
                assert stored is not None
                assert stored.data == run.key.encode()
            info = json.loads((await api.request(f"$JS.API.STREAM.INFO.{RESULTS}", b"{}")).data)
            assert info["state"]["messages"] == RUNS
        assert not worker.lost.is_set()


@mutant("serverless/broker/client.py", "await self._process_op_err(error)", "await super()._process_err(err_msg)")
async def test_a_connection_that_the_broker_ends_with_an_error_comes_back_with_its_subscriptions(
    tmp_path: Path,
) -> None:
    async with running_secured_nats(tmp_path) as nats, nats.worker(ECHO) as worker, nats.role("runtime-api") as api:
        cancelled = await worker.nats.subscribe(subjects.cancelled(ECHO))
        before = worker.nats.stats["reconnects"]
        assert worker.nats._transport is not None
        worker.nats._transport.write(b"NONSENSE\r\n")
        await eventually(lambda: worker.nats.stats["reconnects"] > before, what="the worker has connected again")
        await worker.connected()
        await worker.nats.flush()
        await api.nats.publish(subjects.cancelled(ECHO), b"news")
        assert (await cancelled.next_msg(30)).data == b"news"
        assert await publish_once(worker, subjects.ended(Run(ECHO, "inv-1", 1)), b"{}") is not None
        assert not worker.lost.is_set()
