"""What others may ask of a worker: cancel, drain, wait."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer, running_nats
from equipment.privileges import needs_root
from equipment.waiting import eventually
from equipment.workers import ECHO, OddFramework, Queue, running_framework, running_worker, worker_process
from gpu_runtime.config.worker import FrameworkSettings
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.subjects import Priority
from gpu_runtime.serverless.worker.framework import Framework

SLEEP = {"do": "sleep"}
WORKER_USER = 65532


async def test_a_run_that_is_cancelled_in_the_queue_is_not_run(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    run = await queue.submit("inv", 1)
    assert await queue.cancel(run)
    async with running_worker(server, framework.socket):
        await queue.wait_until_acknowledged()
    assert framework.calls() == []


@pytest.mark.parametrize("told", [True, False])
async def test_a_run_that_is_cancelled_while_it_runs_is_stopped(
    server: NatsServer, queue: Queue, framework: OddFramework, told: bool
) -> None:
    """Also when the word to the worker was lost: it looks for the end from time to time."""
    async with running_worker(server, framework.socket, ackWaitSeconds=30 if told else 0.6):
        run = await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        if told:
            assert await queue.cancel(run)
        else:
            await queue.broker.nats.jetstream().publish(subjects.ended(run), b"{}")
        await eventually(lambda: framework.closed() == ["inv"], what="the connection is closed")
        await queue.wait_until_acknowledged()
        after = await queue.wait_for_end(await queue.submit("after", 1))
    assert after.state == "succeeded"


@mutant(
    "serverless/worker/invocation.py",
    "if await self.tools.ends.exists_now(self.delivery.run):",
    "if self._look is not None:",
)
async def test_a_word_about_a_run_that_has_not_ended_changes_nothing(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    async with running_worker(server, framework.socket):
        run = await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        for word in (b"not JSON", b'{"invocationID":"inv","run":1}', b'{"invocationID":"other","run":1}'):
            await queue.broker.nats.publish(subjects.cancelled(ECHO), word)
        await queue.broker.nats.publish(subjects.control(ECHO, "fn-echo-0"), b"not JSON")
        await queue.broker.nats.flush()
        framework.release()
        assert (await queue.wait_for_end(run)).state == "succeeded"
    assert framework.closed() == []


async def test_an_end_is_not_changed_by_a_cancel_after_it(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    async with running_worker(server, framework.socket):
        run = await queue.submit("inv", 1)
        end = await queue.wait_for_end(run)
        assert not await queue.cancel(run)
    assert await queue.end_of(run) == end


async def test_an_invocation_past_its_deadline_is_not_run(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    late = await queue.submit("late", 1, seconds=0)
    async with running_worker(server, framework.socket):
        end = await queue.wait_for_end(late)
        running_out = await queue.wait_for_end(await queue.submit("running-out", SLEEP, seconds=1, run_seconds=60))
    assert (end.state, end.failureClass, end.attempts) == ("expired", "deadline_passed", 0)
    assert (running_out.state, running_out.failureClass) == ("expired", "deadline_passed")
    assert framework.calls() == ["running-out"]


async def test_a_draining_worker_finishes_what_it_has_and_takes_nothing_more(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    heard = await queue.heartbeats()
    async with running_worker(server, framework.socket, heartbeatSeconds=0.2):
        run = await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        await queue.drain("fn-echo-0")
        await eventually(lambda: heard.latest.state == "draining", what="it says that it drains")
        assert (heard.latest.running, heard.latest.idleSince) == (["inv.1"], None)
        framework.release()
        assert (await queue.wait_for_end(run)).state == "succeeded"
        await eventually(lambda: heard.latest.idleSince is not None and not heard.latest.running, what="it is idle")
        waiting = await queue.submit("waiting", 1)
        count = len(heard)
        await eventually(lambda: len(heard) > count + 5, what="time passes")
        assert await queue.end_of(waiting) is None
        async with running_worker(server, framework.socket, name="fn-echo-1"):
            assert (await queue.wait_for_end(waiting)).workerName == "fn-echo-1"


async def test_a_worker_that_is_told_to_end_finishes_first_and_ends_with_0(
    server: NatsServer, queue: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    with worker_process(server, framework.socket, tmp_path, graceSeconds=60) as worker:
        run = await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        assert worker.process is not None
        worker.process.send_signal(signal.SIGTERM)
        url = f"http://127.0.0.1:{worker.settings.health.port}/drained"
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            drained = group.create_task(session.get(url))
            await eventually(lambda: "draining" in worker.log.read_text(), what="it drains")
            assert not drained.done()
            framework.release()
            assert (await drained).status == 200
        assert (await queue.wait_for_end(run)).state == "succeeded"
        assert await asyncio.to_thread(worker.process.wait, 60) == 0
    assert framework.calls() == ["inv"]


@mutant("serverless/worker/worker.py", "invocation.hand_back()", "pass")
async def test_a_worker_that_cannot_finish_hands_back_before_its_grace_ends(
    server: NatsServer, queue: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    with worker_process(server, framework.socket, tmp_path, graceSeconds=3) as worker:
        run = await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        assert await asyncio.to_thread(worker.stop, signal.SIGTERM) == 0
    assert framework.closed() == ["inv"]
    framework.release()
    # The ack wait is 30 s: without the hand-back the other worker would not have it within 20 s.
    async with running_worker(server, framework.socket, name="fn-echo-1"):
        end = await queue.wait_for_end(run, within=20)
    assert (end.state, end.attempts, end.workerName) == ("succeeded", 2, "fn-echo-1")


@mutant("serverless/worker/puller.py", "if high_is_empty and normal.open_until", "if normal.open_until")
async def test_high_priority_comes_first_and_at_most_one_message_more_is_held(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    heard = await queue.heartbeats()
    priorities: list[Priority] = ["normal", "high"]
    runs = [
        await queue.submit(f"{p}-{n}", {"do": "sleep", "seconds": 0.05}, priority=p)
        for p in priorities
        for n in range(8)
    ]
    async with running_worker(server, framework.socket, heartbeatSeconds=0.1):
        for run in runs:
            await queue.wait_for_end(run)
    order = [call.partition("-")[0] for call in framework.calls()]
    assert order == ["high"] * 8 + ["normal"] * 8
    assert max(len(heartbeat.running) for heartbeat in heard) <= 2


async def test_as_many_run_at_once_as_the_concurrency_allows(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    heard = await queue.heartbeats()
    for n in range(8):
        await queue.submit(f"inv-{n}", SLEEP)
    async with running_worker(server, framework.socket, concurrency=3, heartbeatSeconds=0.1):
        await eventually(lambda: len(framework.calls()) >= 3, what="three calls")
        count = len(heard)
        await eventually(lambda: len(heard) > count + 5, what="time passes")
        assert len(framework.calls()) == 3
        waiting, pending = await queue.unfinished()
        assert (waiting + pending, pending <= 4) == (8, True)
        framework.release()
        await queue.wait_until_acknowledged()


async def test_a_worker_waits_for_its_framework_and_says_why(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    framework.process.stop()
    framework.socket.unlink(missing_ok=True)
    heard = await queue.heartbeats()
    run = await queue.submit("inv", 1)

    async def says(words: str) -> None:
        await eventually(lambda: words in heard.latest.problem and heard.latest.state == "starting", what=words)

    async with running_worker(server, framework.socket, heartbeatSeconds=0.2) as worker:
        await says("there is no socket")
        assert worker.checks()["framework"] == heard.latest.problem
        framework.socket.write_text("a plain file")
        await says("nobody listens")
        framework.socket.unlink()
        framework.set_healthy(False)
        framework.process.start()
        await says("answers 503 to GET /healthz")
        assert framework.calls() == []
        framework.set_healthy(True)
        assert (await queue.wait_for_end(run)).state == "succeeded"
        await eventually(lambda: heard.latest.state == "ready", what="it is ready")


@needs_root("the worker and its framework are two users")
async def test_a_socket_that_other_users_cannot_write_to_is_explained(framework: OddFramework) -> None:
    await eventually(framework.socket.exists, what="the socket")
    framework.socket.chmod(0o600)
    async with Framework(FrameworkSettings(socketPath=str(framework.socket)), 1) as client:
        os.seteuid(WORKER_USER)
        try:
            problem = await client.health()
        finally:
            os.seteuid(0)
    assert problem == f"permission denied for {framework.socket}: make it writable for other users (chmod 0666)"


async def test_a_framework_with_one_connection_at_a_time_runs_all(
    server: NatsServer, queue: Queue, tmp_path: Path
) -> None:
    """While it works it answers nothing else, /healthz included."""
    command = [sys.executable, str(Path(__file__).with_name("sequential_framework.py"))]
    with running_framework(tmp_path, command) as framework:
        async with running_worker(server, framework.socket, concurrency=8):
            runs = [await queue.submit(f"inv-{n}", n, max_attempts=1) for n in range(30)]
            ends = [await queue.wait_for_end(run) for run in runs]
    assert {end.state for end in ends} == {"succeeded"}


@mutant(
    "serverless/worker/framework.py",
    "raise NotReached(self._not_reached(error.os_error)) from error",
    'return Failure("framework_error", "away")',
)
async def test_a_framework_that_is_away_for_a_moment_costs_no_try(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    async with running_worker(server, framework.socket) as worker:
        await eventually(lambda: not any(worker.checks().values()), what="the worker is ready")
        framework.process.stop()
        run = await queue.submit("inv", 1, max_attempts=1)
        await eventually(lambda: worker.checks()["framework"], what="the worker misses the framework")
        framework.process.start()
        end = await queue.wait_for_end(run)
    assert (end.state, end.attempts) == ("succeeded", 1)


async def test_a_worker_waits_for_the_broker_and_for_the_consumers(tmp_path: Path, framework: OddFramework) -> None:
    async with running_nats(tmp_path) as server:
        server.kill()
        async with running_worker(server, framework.socket, heartbeatSeconds=0.2) as worker:
            await eventually(lambda: not worker.checks()["framework"], what="the framework is ready")
            assert worker.checks()["broker"]
            server.start()
            await server.wait_until_it_answers()
            async with server.connection() as broker:
                queue = Queue(broker)
                heard = await queue.heartbeats()
                await eventually(lambda: "no consumer" in heard.latest.problem, what="its problem")
                await queue.create_consumers()
                assert (await queue.wait_for_end(await queue.submit("inv", 1))).state == "succeeded"
                await eventually(lambda: heard.latest.state == "ready", what="it is ready")


async def test_partial_output_is_published_while_the_run_goes_on(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    pieces: list[dict[str, object]] = []

    async def hear(message: object) -> None:
        pieces.append(json.loads(message.data))  # type: ignore[attr-defined]

    run = subjects.Run(ECHO, "inv", 1)
    await queue.broker.nats.subscribe(subjects.output(run), cb=hear)
    lines = ['{"output": {"n": 1}}\n{"output": "two"}\n', '{"result": "done"}\n']
    await queue.submit("inv", {"do": "stream", "lines": lines})
    async with running_worker(server, framework.socket):
        assert await queue.body_of(await queue.wait_for_end(run)) == "done"
        await eventually(lambda: len(pieces) == 3, what="three events")
    assert [(piece["sequence"], piece["workerName"]) for piece in pieces] == [(n, "fn-echo-0") for n in range(3)]
    assert [piece.get("data") for piece in pieces] == [None, {"json": {"n": 1}}, {"json": "two"}]


async def test_a_flood_of_output_does_not_hold_up_the_run(
    server: NatsServer, queue: Queue, framework: OddFramework
) -> None:
    order = {"do": "stream", "lines": ['{"output": "' + "x" * 50_000 + '"}\n'] * 15, "times": 1}
    lines = [*order["lines"], '{"result": 1}\n']  # type: ignore[misc]
    runs = [await queue.submit(f"flood-{n}", {"do": "stream", "lines": lines}) for n in range(10)]
    async with running_worker(server, framework.socket, concurrency=10):
        for run in runs:
            assert (await queue.wait_for_end(run)).state == "succeeded"


@mutant(
    "serverless/worker/worker.py",
    "            task.cancel()\n\n    def _make_tools",
    "            pass\n\n    def _make_tools",
)
async def test_a_worker_ends_in_its_grace_although_the_broker_is_away(
    server: NatsServer, queue: Queue, framework: OddFramework, tmp_path: Path
) -> None:
    with worker_process(server, framework.socket, tmp_path, graceSeconds=3) as worker:
        await queue.submit("inv", SLEEP)
        await eventually(framework.calls, what="the call")
        server.kill()
        assert await asyncio.to_thread(worker.stop, signal.SIGTERM) == 0
