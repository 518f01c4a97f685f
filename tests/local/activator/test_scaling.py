"""Workers come and go with the queue."""

from __future__ import annotations

from equipment.nats import NatsServer
from local.activator.world import ECHO, function, world


async def test_a_function_without_invocations_is_idle_and_has_no_worker(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.settle()
        assert activator.slots == []
        assert activator.condition == ("Idle", "FunctionIdle", "no worker runs; the next invocation starts one")
        assert await activator.activator.consumers.functions() == {ECHO}


async def test_a_queued_invocation_makes_a_worker_and_an_idle_worker_is_removed(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("a")
        await activator.settle()
        assert activator.slots == [0]
        unit = activator.unit(0)
        assert unit is not None
        assert unit["spec"]["serverless"].items() >= {"enabled": True, "requestID": "echo"}.items()
        assert unit["metadata"]["ownerReferences"][0]["uid"] == "echo-uid"
        assert activator.condition[:2] == ("Progressing", "FunctionProgressing")

        activator.ready(0)
        await activator.settle()
        assert activator.condition[:2] == ("Ready", "FunctionReady")
        assert (activator.status["workers"], activator.status["readyWorkers"]) == (1, 1)

        await activator.end(run)
        assert (await activator.settle()).requeue_after is not None
        assert activator.slots == [0]
        activator.clock.advance(30.0)
        activator.beat(0, idle=30.0)
        await activator.settle()
        activator.beat(0, "draining", idle=30.0)
        await activator.settle()
        assert activator.slots == []
        assert activator.condition[:2] == ("Idle", "FunctionIdle")
