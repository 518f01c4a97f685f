"""An invocation runs from end to end, with a real broker and a framework process."""

from __future__ import annotations

from pathlib import Path

from equipment.nats import NatsServer
from equipment.workers import OddFramework, Queue, running_worker, worker_process


async def test_an_invocation_is_run_ended_and_acknowledged(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    run = await queue.submit("inv-1", {"x": 1})
    async with running_worker(server, framework.socket):
        end = await queue.wait_for_end(run)
        await queue.wait_until_acknowledged()
    assert (end.state, end.statusCode, end.attempts, end.workerName) == ("succeeded", 200, 1, "fn-echo-0")
    assert (end.failureClass, end.error) == (None, None)
    assert end.startedAt is not None
    assert (await queue.body_of(end))["payload"] == {"x": 1}
    assert framework.calls() == ["inv-1"]


async def test_the_worker_runs_as_a_process(
    server: NatsServer, queue: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    with worker_process(server, framework.socket, tmp_path) as worker:
        await worker.wait_until_ready()
        end = await queue.wait_for_end(await queue.submit("inv-1", "hello"))
    assert end.state == "succeeded"
