"""Late invocations that no worker takes get their end."""

from __future__ import annotations

import asyncio

from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.activator.expiry import RUNNING_SECONDS
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.messages import WorkerHeartbeat
from gpu_runtime.serverless.subjects import Run
from local.activator.world import ECHO, NAMESPACE, World, function, world


def works_on(activator: World, run: Run) -> None:
    said = WorkerHeartbeat(
        namespace=NAMESPACE, function="echo", workerName="w", state="ready", running=[run.key], sentAt=0.0
    )
    activator.activator.heartbeats.note(ECHO, "w", said)


async def test_a_run_past_its_deadline_is_expired_and_others_are_not(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        late, other = await activator.accept("late", seconds=10.0), await activator.accept("other", seconds=11.0)
        await activator.activator.expiry.expire()
        assert await activator.ending(late) is None
        activator.clock.advance(10.0)
        await activator.activator.expiry.expire()
        ending = await activator.ending(late)
        assert ending is not None
        assert (ending.state, ending.failureClass, ending.of) == ("expired", "deadline_passed", late)
        assert ending.acceptedAt is not None
        assert await activator.ending(other) is None


@mutant("activator/expiry.py", "self.heartbeats.is_running(run.function, run.key) and", "False and")
async def test_a_worker_that_still_runs_it_ends_it_itself(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("late", seconds=10.0)
        works_on(activator, run)
        activator.clock.advance(9.0)
        works_on(activator, run)
        activator.clock.advance(2.0)
        await activator.activator.expiry.expire()
        assert await activator.ending(run) is None
        for _ in range(int(RUNNING_SECONDS)):
            activator.clock.advance(1.0)
            works_on(activator, run)
        await activator.activator.expiry.expire()
        ending = await activator.ending(run)
        assert ending is not None
        assert ending.state == "expired"


async def test_an_end_that_was_there_first_stays(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("late", seconds=1.0)
        activator.activator.backlog._ended._on_message = lambda _: None  # this activator does not hear of the end
        assert await publish_once(activator.broker, subjects.ended(run), b'{"state":"succeeded"}') is not None
        activator.clock.advance(2.0)
        await activator.activator.expiry.expire()
        assert activator.activator.backlog.find(run) is None


async def test_an_invocation_that_cannot_be_read_gets_its_end_too(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = Run(ECHO, "bad", 1)
        await publish_once(activator.broker, subjects.accepted(run, "high"), b"no json", headers={"Gr-Deadline": "1"})
        await eventually(lambda: activator.activator.backlog.find(run), what="it is seen")
        await activator.activator.expiry.expire()
        ending = await activator.ending(run)
        assert ending is not None
        assert ending.state == "expired"


async def test_only_a_leader_expires_and_it_tries_again_when_the_broker_was_away(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("late", seconds=1.0)
        activator.clock.advance(2.0)
        task = asyncio.create_task(activator.activator.expiry.run())
        try:
            await asyncio.sleep(0)
            server.kill()
            await eventually(lambda: activator.broker.problem, what="it is noticed")
            activator.manager.leading.set()
            server.start()
            await eventually(lambda: not activator.broker.problem, what="the broker is back")

            async def has_ended() -> bool:
                activator.clock.advance(1.0)
                return await activator.ending(run) is not None

            await eventually(has_ended, what="the late run is ended")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
