"""Workers under faults: random kills of workers and broker."""

from __future__ import annotations

import random
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from equipment.nats import NatsServer, running_nats
from equipment.soak import Soak
from equipment.waiting import eventually
from equipment.workers import OddFramework, Queue, WorkerProcess, odd_framework, worker_process
from gpu_runtime.serverless.subjects import Run


async def test_random_kills_cost_a_further_try_at_most(tmp_path: Path, soak: Soak) -> None:
    rng, kills = soak.random("workers"), soak.rounds(8)
    count = 8 * kills
    async with running_nats(tmp_path) as server, server.connection() as broker:
        queue = Queue(broker)
        await queue.create_consumers(ack_wait=1)
        with odd_framework(tmp_path) as framework, ExitStack() as processes:
            workers = [
                processes.enter_context(
                    worker_process(
                        server, framework.socket, tmp_path, name=f"fn-echo-{n}", concurrency=2, ackWaitSeconds=1
                    )
                )
                for n in range(2)
            ]
            runs = [await submit(queue, rng, n) for n in range(count)]
            for _ in range(kills):
                await progress(queue, framework)
                await kill(rng, server, queue, workers)
            ends = [await queue.wait_for_end(run, within=120) for run in runs]
            await queue.wait_until_acknowledged()
    executions = Counter(framework.calls())
    assert {end.state for end in ends} == {"succeeded"}
    assert max(executions.values()) <= 1 + kills
    assert sum(executions.values()) <= count + 6 * kills, "a kill costs at most what its worker held"


async def submit(queue: Queue, rng: random.Random, number: int) -> Run:
    order = {"do": "sleep", "seconds": rng.uniform(0.05, 0.6)}
    return await queue.submit(f"inv-{number}", order, max_attempts=100, priority=rng.choice(["normal", "high"]))


async def progress(queue: Queue, framework: OddFramework) -> None:
    """Waits until something new was called, or nothing is left."""
    before = len(framework.calls())

    async def more() -> bool:
        return len(framework.calls()) > before or await queue.unfinished() == (0, 0)

    await eventually(more, within=120, what="a further call")


async def kill(rng: random.Random, server: NatsServer, queue: Queue, workers: list[WorkerProcess]) -> None:
    """SIGKILL for the broker or a worker, which starts again."""
    if rng.random() < 0.4:
        server.kill()
        server.start()
        await server.wait_until_it_answers()
        await eventually(lambda: not queue.broker.problem, what="the test is connected again")
    else:
        worker = rng.choice(workers)
        worker.stop(signal.SIGKILL)
        worker.start()
