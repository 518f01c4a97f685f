"""How many invocations of a function wait and run, as its view shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from equipment.nats import running_nats
from equipment.waiting import eventually
from equipment.workers import ECHO, Queue
from gpu_runtime.api.meta.object import Key
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.messages import WorkerHeartbeat, encode
from gpu_runtime.service.functions.load import Load, load_of

KEY = Key(ECHO.namespace, ECHO.name)


async def test_what_workers_run_is_not_counted_as_waiting(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server, server.connection() as broker:
        backlog, heartbeats = Backlog(broker), Heartbeats(broker)
        load = load_of(backlog, heartbeats)
        assert load(KEY) is None, "nothing is known yet"
        following = [asyncio.create_task(backlog.run()), asyncio.create_task(heartbeats.run())]
        try:
            await eventually(lambda: load(KEY) == Load(0, 0), what="an empty queue")
            for number in range(3):
                await Queue(broker).submit(f"inv-{number}", {})
            await eventually(lambda: load(KEY) == Load(3, 0), what="three invocations wait")
            beat = WorkerHeartbeat(
                namespace=ECHO.namespace,
                function=ECHO.name,
                workerName="w",
                state="ready",
                running=["inv-1.1", "ended.1"],
                sentAt=0,
            )

            async def one_runs() -> bool:
                await broker.nats.publish(subjects.heartbeat(ECHO, "w"), encode(beat))
                return load(KEY) == Load(2, 1)

            await eventually(one_runs, what="one of them runs")
            assert load(Key("other", ECHO.name)) == Load(0, 0)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
