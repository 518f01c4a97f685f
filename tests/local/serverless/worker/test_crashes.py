"""What dies in between costs a further try at most: one end each, and no run without a reason."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from equipment.workers import ECHO, OddFramework, Queue, running_worker, worker_process
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.streams import INVOCATIONS

SLEEP = {"do": "sleep"}


@pytest.fixture
async def impatient(queue: Queue) -> Queue:
    """The broker gives an unattended message to another worker after a second."""
    name = subjects.consumer(ECHO, "normal")
    await queue.broker.request(f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.{name}")
    await queue.create_consumers(ack_wait=1)
    return queue


async def running(framework: OddFramework, count: int) -> None:
    await eventually(lambda: len(framework.calls()) == count, what=f"{count} calls")


@mutant("serverless/worker/invocation.py", "await self.delivery.in_progress()", "pass")
async def test_a_run_longer_than_the_ack_wait_runs_once(
    server: NatsServer, impatient: Queue, framework: OddFramework
) -> None:
    run = await impatient.submit("long", {"do": "sleep", "seconds": 4})
    async with (
        running_worker(server, framework.socket, ackWaitSeconds=1),
        running_worker(server, framework.socket, ackWaitSeconds=1, name="fn-echo-1"),
    ):
        end = await impatient.wait_for_end(run)
        await impatient.wait_until_acknowledged()
    assert (end.state, end.attempts, framework.calls()) == ("succeeded", 1, ["long"])


@mutant("serverless/worker/worker.py", "if held is not None:", "if False:")
async def test_a_run_that_is_delivered_again_to_its_own_worker_is_not_run_twice(
    server: NatsServer, impatient: Queue, framework: OddFramework
) -> None:
    """The worker reports progress every 3 s, which is too seldom for this broker: it delivers the run again."""
    run = await impatient.submit("inv", SLEEP, max_attempts=100)
    async with running_worker(server, framework.socket, ackWaitSeconds=300, concurrency=2):
        other = await impatient.submit("other", {"do": "sleep", "seconds": 3})
        await impatient.wait_for_end(other)
        framework.release()
        end = await impatient.wait_for_end(run)
        await impatient.wait_until_acknowledged()
    assert end.state == "succeeded"
    assert end.attempts > 1
    assert sorted(framework.calls()) == ["inv", "other"]


async def test_two_workers_share_the_messages_and_run_each_once(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    async with (
        running_worker(server, framework.socket, concurrency=2),
        running_worker(server, framework.socket, concurrency=2, name="fn-echo-1"),
    ):
        runs = [await queue.submit(f"inv-{n}", n) for n in range(60)]
        ends = [await queue.wait_for_end(run) for run in runs]
        await queue.wait_until_acknowledged()
    assert sorted(framework.calls()) == sorted(run.invocation_id for run in runs)
    assert {end.workerName for end in ends} == {"fn-echo-0", "fn-echo-1"}
    assert {(end.state, end.attempts) for end in ends} == {("succeeded", 1)}


async def test_a_killed_worker_costs_one_try_and_another_worker_runs_it(
    server: NatsServer, impatient: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    run = await impatient.submit("inv", SLEEP, max_attempts=3)
    with worker_process(server, framework.socket, tmp_path, ackWaitSeconds=1) as first:
        await running(framework, 1)
        first.stop(signal.SIGKILL)
    framework.release()
    async with running_worker(server, framework.socket, ackWaitSeconds=1, name="fn-echo-1"):
        end = await impatient.wait_for_end(run)
    assert (end.state, end.attempts, end.workerName) == ("succeeded", 2, "fn-echo-1")
    assert framework.calls() == ["inv", "inv"]


async def test_an_invocation_that_kills_its_workers_ends_in_a_dead_letter(
    server: NatsServer, impatient: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    run = await impatient.submit("poison", SLEEP, max_attempts=2)
    for attempt in (1, 2):
        with worker_process(server, framework.socket, tmp_path, ackWaitSeconds=1) as worker:
            await running(framework, attempt)
            worker.stop(signal.SIGKILL)
    async with running_worker(server, framework.socket, ackWaitSeconds=1):
        end = await impatient.wait_for_end(run)
        await impatient.wait_until_acknowledged()
    assert (end.state, end.failureClass, end.attempts) == ("dead_lettered", "worker_lost", 2)
    assert "the worker of the last try was lost" in (end.error or "")
    assert len(framework.calls()) == 2


@mutant("serverless/worker/invocation.py", "if await self.tools.ends.exists(self.delivery.run):", "if False:")
async def test_an_end_whose_acknowledgement_was_lost_is_found_and_not_run_again(
    server: NatsServer, impatient: Queue, framework: OddFramework
) -> None:
    run = await impatient.submit("inv", 1)
    # A worker that died after it had published the end: its delivery was taken and never answered.
    dead = await impatient.broker.nats.jetstream().pull_subscribe_bind(subjects.consumer(ECHO, "normal"), INVOCATIONS)
    await dead.fetch(1)
    assert await impatient.cancel(run)
    async with running_worker(server, framework.socket, ackWaitSeconds=1):
        await impatient.wait_until_acknowledged()
    end = await impatient.end_of(run)
    assert end is not None
    assert (end.state, framework.calls()) == ("cancelled", [])


@mutant("serverless/worker/puller.py", "reconnected or late", "False")
@pytest.mark.parametrize("step", ["idle", "running", "ended"])
async def test_a_killed_broker_loses_nothing(
    server: NatsServer, impatient: Queue, framework: OddFramework, step: str
) -> None:
    """Killed before a message comes, while it runs, and when its end must be published."""
    async with running_worker(server, framework.socket, ackWaitSeconds=1, heartbeatSeconds=0.2) as worker:
        await eventually(lambda: not any(worker.checks().values()), what="the worker is ready")
        run = None
        if step != "idle":
            run = await impatient.submit("inv", SLEEP)
            await running(framework, 1)
        server.kill()
        if step == "ended":
            framework.release()
            await eventually(lambda: worker.checks()["broker"], what="the worker misses the broker")
        server.start()
        await server.wait_until_it_answers()
        await eventually(lambda: not impatient.broker.problem, what="the test is connected again")
        framework.release()
        run = run or await impatient.submit("inv", SLEEP)
        end = await impatient.wait_for_end(run)
        await impatient.wait_until_acknowledged()
        after = await impatient.wait_for_end(await impatient.submit("after", 1))
    # The worker held the run all the time, so a further delivery of it was no further run.
    assert (end.state, framework.calls()) == ("succeeded", ["inv", "after"])
    assert after.state == "succeeded"


async def test_a_full_result_stream_holds_the_end_until_there_is_room(
    server: NatsServer, impatient: Queue, framework: OddFramework
) -> None:
    heard = await impatient.heartbeats()
    await set_result_bytes(impatient, 1)
    run = await impatient.submit("inv", 1)
    async with running_worker(server, framework.socket, ackWaitSeconds=1, heartbeatSeconds=0.2):
        await eventually(lambda: "cannot be published" in heard.latest.problem, what="the problem is reported")
        assert heard.latest.running == ["inv.1"]
        await set_result_bytes(impatient, 64 * 1024**2)
        end = await impatient.wait_for_end(run)
        await eventually(lambda: heard.latest.problem == "", what="the problem is gone")
    assert (end.state, framework.calls()) == ("succeeded", ["inv"])


async def set_result_bytes(queue: Queue, size: int) -> None:
    answer = await queue.broker.request("$JS.API.STREAM.INFO.RESULTS")
    config = json.loads(answer.data)["config"] | {"max_bytes": size}
    answer = await queue.broker.request("$JS.API.STREAM.UPDATE.RESULTS", json.dumps(config).encode())
    assert "error" not in json.loads(answer.data), answer.data


async def test_a_worker_that_stalled_does_not_change_the_end_that_another_published(
    server: NatsServer, impatient: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    run = await impatient.submit("inv", SLEEP)
    with worker_process(server, framework.socket, tmp_path, ackWaitSeconds=1) as stalled:
        await running(framework, 1)
        assert stalled.process is not None
        stalled.process.send_signal(signal.SIGSTOP)
        async with running_worker(server, framework.socket, ackWaitSeconds=1, name="fn-echo-1"):
            await running(framework, 2)
            framework.release()
            end = await impatient.wait_for_end(run)
            await impatient.wait_until_acknowledged()
        stalled.process.send_signal(signal.SIGCONT)
        after = await impatient.submit("after", 1)
        assert (await impatient.wait_for_end(after)).workerName == "fn-echo-0"
    assert (end.workerName, end.attempts) == ("fn-echo-1", 2)
    assert await impatient.end_of(run) == end
    assert framework.calls("inv") == ["inv", "inv"]


async def test_a_message_that_cannot_be_read_ends_and_does_not_stop_the_worker(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    bad = subjects.Run(ECHO, "bad", 1)
    foreign = subjects.Run(ECHO, "foreign", 1)
    good = await queue.submit("good", 1)
    message = await queue.broker.nats.jetstream().get_last_msg(INVOCATIONS, subjects.accepted(good, "normal"))
    await queue.broker.nats.jetstream().publish(f"inv.{ECHO.scope}.id.0.h", b"{}")  # there is no run 0
    await queue.broker.nats.jetstream().publish(subjects.accepted(bad, "high"), b"\xff not JSON")
    await queue.broker.nats.jetstream().publish(subjects.accepted(foreign, "high"), message.data or b"")
    async with running_worker(server, framework.socket):
        ends = await asyncio.gather(*(queue.wait_for_end(run) for run in (bad, foreign, good)))
        await queue.wait_until_acknowledged()
    assert [(end.state, end.failureClass) for end in ends] == [
        ("dead_lettered", "malformed_message"),
        ("dead_lettered", "malformed_message"),
        ("succeeded", None),
    ]
    assert framework.calls() == ["good"]


async def test_a_large_payload_that_is_gone_fails_with_its_cause(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    run = await queue.submit("inv", "z" * 700_000)
    await queue.broker.nats.jetstream().purge_stream("BODIES")
    async with running_worker(server, framework.socket):
        end = await queue.wait_for_end(run)
    assert (end.state, end.failureClass, framework.calls()) == ("failed", "malformed_message", [])
    assert "the payload cannot be read" in (end.error or "")
