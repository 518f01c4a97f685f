"""Workers come and go with the queue."""

from __future__ import annotations

import pytest

from equipment.builders import a_unit
from equipment.memory_api import refused
from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER
from gpu_runtime.kube import Forbidden
from local.activator.world import ECHO, KEY, function, world


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


async def test_a_long_queue_makes_no_more_than_max_workers(server: NatsServer) -> None:
    async with world(server, function(concurrency=2)) as activator:
        for number in range(20):
            await activator.accept(f"i-{number}")
        await activator.settle()
        assert activator.slots == [0, 1, 2]
        assert activator.api.changes > 0


async def test_min_workers_run_without_work(server: NatsServer) -> None:
    async with world(server, function(minWorkers=2)) as activator:
        await activator.settle()
        assert activator.slots == [0, 1]
        activator.ready(0, 1)
        activator.clock.advance(1000.0)
        activator.beat(0, idle=1000.0)
        activator.beat(1, idle=1000.0)
        await activator.settle()
        assert activator.slots == [0, 1]
        assert activator.condition[:2] == ("Ready", "FunctionReady")


async def test_fewer_max_workers_drain_the_others(server: NatsServer) -> None:
    async with world(server, function(minWorkers=3)) as activator:
        await activator.settle()
        activator.ready(0, 1, 2)
        await activator.settle()
        activator.api.put(function(minWorkers=1, maxWorkers=1).kept_by(FUNCTION_FINALIZER).at_generation(2))
        await activator.settle()
        assert activator.slots == [0, 1, 2]  # told to drain, and not there yet
        for slot in (0, 1, 2):
            activator.beat(slot, "draining" if slot else "ready")
        await activator.settle()
        assert activator.slots == [0]


@mutant("activator/observation.py", 'is_open = heartbeat.said.state == "draining" and', "is_open = False and")
async def test_a_draining_worker_stays_until_it_says_that_nothing_can_come(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("a")
        await activator.settle()
        activator.ready(0)
        await activator.settle()
        await activator.end(run)
        await activator.settle()
        activator.clock.advance(31.0)
        activator.beat(0, "draining", running=1)
        await activator.settle()
        assert activator.slots == [0]
        activator.beat(0, "draining", is_open=True)  # it runs nothing, but a request for more is still open
        await activator.settle()
        assert activator.slots == [0]
        activator.beat(0, "draining", idle=0.0)
        await activator.settle()
        assert activator.slots == []


@mutant("activator/reconcile.py", "        if self.backlog.problem:", "        if False:")
async def test_without_the_broker_nothing_is_decided(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        run = await activator.accept("a")
        await activator.settle()
        activator.ready(0)
        await activator.settle()
        await activator.end(run)
        await activator.settle()
        server.kill()
        await eventually(lambda: activator.activator.backlog.problem, what="it is noticed")
        activator.clock.advance(1000.0)
        activator.beat(0, "draining", idle=1000.0)
        result = await activator.settle()
        assert activator.slots == [0]
        assert activator.condition[:2] == ("Progressing", "FunctionBrokerUnavailable")
        assert result.requeue_after is not None


async def test_a_failed_worker_gives_its_cause_and_is_replaced_after_a_back_off(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.accept("a")
        await activator.settle()
        for wait in (10.0, 20.0, 40.0):
            activator.report(0, "Failed", "image echo:1 cannot be pulled")
            before = activator.unit(0)
            result = await activator.settle()
            assert activator.condition == (
                "Failed",
                "WorkersFailed",
                "worker fn-echo-0 failed: image echo:1 cannot be pulled",
            )
            assert result.requeue_after == pytest.approx(wait)
            activator.clock.advance(wait)
            await activator.settle()
            after = activator.unit(0)
            assert before is not None
            assert after is not None
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
        activator.ready(0)
        await activator.settle()
        assert activator.condition[:2] == ("Ready", "FunctionReady")
        activator.report(0, "Failed", "its container crashes")  # after a moment: this counts as one failure more
        assert (await activator.settle()).requeue_after == pytest.approx(80.0)
        activator.ready(0)
        await activator.settle()
        activator.clock.advance(60.0)
        activator.beat(0)
        await activator.settle()
        activator.report(0, "Failed", "its container crashes")
        assert (await activator.settle()).requeue_after == pytest.approx(10.0)


async def test_a_worker_that_never_gets_ready_is_replaced(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.accept("a")
        await activator.settle()
        activator.report(0, "Progressing", "no node has room for its pod")
        await activator.settle()
        assert activator.condition[2] == "worker fn-echo-0 starts: no node has room for its pod"
        activator.clock.advance(600.0)
        await activator.settle()
        assert activator.condition[:2] == ("Failed", "WorkersFailed")
        assert "not ready within 600 s: no node has room for its pod" in activator.condition[2]


async def test_a_worker_that_is_not_heard_is_replaced_although_its_unit_is_ready(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.accept("a")
        await activator.settle()
        activator.ready(0)
        await activator.settle()
        activator.clock.advance(59.0)
        await activator.settle()
        assert activator.condition[:2] == ("Ready", "FunctionReady")
        activator.clock.advance(2.0)
        await activator.settle()
        assert activator.condition[:2] == ("Failed", "WorkersFailed")
        assert "was not heard for 61 s" in activator.condition[2]


async def test_a_refused_worker_gives_the_refusal_as_the_cause(server: NatsServer) -> None:
    quota = refused(Forbidden, 403, "exceeded quota: 3 of 3 units")
    async with world(server, function(), failures={"create GPUUnit fn-echo-0": quota}) as activator:
        await activator.accept("a")
        result = await activator.reconcile()
        assert result.requeue_after is not None
        assert activator.condition[:2] == ("Failed", "FunctionWorkerRefused")
        assert "exceeded quota: 3 of 3 units" in activator.condition[2]


async def test_a_unit_of_a_user_with_the_name_of_a_worker_is_reported_and_not_touched(server: NatsServer) -> None:
    foreign = a_unit("fn-echo-0").with_uid("foreign-uid")
    async with world(server, function(), foreign) as activator:
        await activator.accept("a")
        before = activator.unit(0)
        await activator.reconcile()
        assert activator.condition[:2] == ("Failed", "NameConflict")
        assert activator.unit(0) == before


async def test_a_spec_that_breaks_a_rule_is_reported(server: NatsServer) -> None:
    unit = {"specName": "cpu.small"}
    async with world(server, function(unit=unit)) as activator:
        await activator.accept("a")
        await activator.settle()
        assert activator.condition[:2] == ("Failed", "FunctionInvalidSpec")
        assert "spec.unit.image" in activator.condition[2]
        assert activator.slots == []


async def test_only_the_first_invocation_of_a_function_without_workers_is_urgent(server: NatsServer) -> None:
    """A function that is invoked a thousand times a second must not be reconciled as often."""
    async with world(server, function()) as activator:
        controller = activator.activator.controller
        controller.running = True
        await activator.accept("a")
        assert len(controller.queue) == 1
        assert controller.queue.try_get() == KEY
        controller.queue.done(KEY)
        await activator.accept("b")
        assert len(controller.queue) == 0
        assert controller.queue.pending() == {KEY}
