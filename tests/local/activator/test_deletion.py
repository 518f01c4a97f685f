"""A deleted function ends its invocations, each with its terminal record, and leaves nothing behind."""

from __future__ import annotations

from equipment.builders import Builder, a_unit
from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER, OPERATION_ID, PENDING_INVOCATIONS
from gpu_runtime.serverless.subjects import Run
from local.activator.world import ECHO, KEY, NAMESPACE, World, function, world


def delete(activator: World, *, pending: str = "") -> None:
    """As a client does: the annotation first, if any, then the deletion, which waits for the finalizer."""
    found = activator.api.find("GPUFunction", "echo")
    assert found is not None
    builder = Builder(found).being_deleted()
    activator.api._store((builder.annotated({PENDING_INVOCATIONS: pending}) if pending else builder).document())


def is_gone(activator: World) -> bool:
    return activator.api.find("GPUFunction", "echo") is None


async def busy(activator: World, count: int = 2) -> list[Run]:
    runs = [await activator.accept(f"i-{number}") for number in range(count)]
    await activator.settle()
    activator.ready(*activator.slots)
    await activator.settle()
    return runs


async def test_the_finalizer_is_there_before_anything_else(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.accept("a")
        await activator.settle()
        assert activator.api.writes[0] == "patch GPUFunction echo"
        found = activator.api.find("GPUFunction", "echo")
        assert found is not None
        assert found["metadata"]["finalizers"] == [FUNCTION_FINALIZER]


async def test_an_idle_function_goes_at_once_with_its_consumers(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.settle()
        assert await activator.activator.consumers.functions() == {ECHO}
        delete(activator)
        await activator.reconcile()
        assert is_gone(activator)
        assert await activator.activator.consumers.functions() == set()


async def test_its_workers_go_before_it(server: NatsServer) -> None:
    async with world(server, function(minWorkers=2)) as activator:
        await activator.settle()
        activator.ready(0, 1)
        delete(activator)
        await activator.reconcile()
        assert activator.slots == []
        assert not is_gone(activator)
        assert activator.condition[:2] == ("Progressing", "FunctionDeleting")
        await activator.reconcile()
        assert is_gone(activator)


async def test_by_default_it_waits_until_its_invocations_have_ended(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        runs = await busy(activator)
        delete(activator)
        await activator.settle()
        assert activator.condition[:2] == ("Progressing", "FunctionDeleting")
        assert "2 invocations are unfinished" in activator.condition[2]
        assert activator.slots == [0, 1]
        for run in runs:
            assert await activator.ending(run) is None
            await activator.end(run)
        await activator.settle()
        assert is_gone(activator)


async def test_while_it_drains_workers_still_start(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.settle()
        await activator.accept("a")
        delete(activator)
        await activator.settle()
        assert activator.slots == [0]


async def test_with_cancel_each_invocation_is_cancelled(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        runs = await busy(activator, 40)
        await activator.end(runs[0])
        delete(activator, pending="cancel")
        await activator.reconcile()
        await eventually(lambda: not activator.activator.backlog.load(ECHO), what="all ends are seen")
        await activator.settle()
        assert is_gone(activator)
        for run in runs[1:]:
            ending = await activator.ending(run)
            assert ending is not None
            assert (ending.state, ending.failureClass, ending.mode) == ("cancelled", "function_deleted", "sync")
            assert ending.of == run


async def test_a_worker_that_the_cache_does_not_show_is_found_before_the_finalizer_goes(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.settle()
        delete(activator)
        activator.api.fill(activator.manager)
        activator.api.put(a_unit("fn-echo-0").controlled_by(function()))
        await activator.reconcile(fresh=False)
        assert not is_gone(activator)
        assert activator.slots == []


async def test_a_worker_that_a_late_hand_over_left_is_removed(server: NatsServer) -> None:
    """Its function is gone, and the unit has no owner reference by which the garbage collector would find it."""
    made_by = "function-0b1c7f3e-0000-4000-8000-000000000001-0-12345678"
    late = a_unit("fn-echo-0").annotated({OPERATION_ID: made_by})
    late = late.spec(serverless={"enabled": True, "requestID": "echo"})
    async with world(server, late) as activator:
        await activator.settle()
        assert activator.slots == []


async def test_a_static_worker_whose_user_chose_a_similar_operation_id_stays(server: NatsServer) -> None:
    own = a_unit("fn-echo-0").annotated({OPERATION_ID: "function-of-mine-0-1"})
    own = own.spec(serverless={"enabled": True, "requestID": "echo"})
    async with world(server, own) as activator:
        await activator.settle()
        assert activator.slots == [0]


@mutant("activator/static_workers.py", "        if wait > 0:", "        if False:")
async def test_what_was_accepted_while_the_function_went_is_ended_after_a_while(server: NatsServer) -> None:
    async with world(server) as activator:
        run = await activator.accept("late")
        result = await activator.settle()
        assert result.requeue_after == 30.0
        assert await activator.ending(run) is None
        activator.clock.advance(30.0)
        await activator.settle()
        ending = await activator.ending(run)
        assert ending is not None
        assert (ending.state, ending.failureClass) == ("failed", "function_deleted")


async def test_a_function_that_only_the_server_knows_keeps_its_invocations(server: NatsServer) -> None:
    async with world(server) as activator:
        run = await activator.accept("late")
        await activator.settle()
        activator.clock.advance(30.0)
        activator.api.fill(activator.manager)
        activator.api.put(function())
        await activator.reconcile(fresh=False)
        assert await activator.ending(run) is None


async def test_a_function_that_another_finalizer_holds_is_left_alone(server: NatsServer) -> None:
    held = function().kept_by("example.com/other").being_deleted()
    async with world(server, held) as activator:
        await activator.settle()
        assert activator.api.writes == []
        assert await activator.activator.consumers.functions() == set()


async def test_consumers_of_a_name_without_function_and_worker_are_removed(server: NatsServer) -> None:
    async with world(server) as activator:
        await activator.activator.consumers.ensure(ECHO)
        assert await activator.activator.consumers.functions() == {ECHO}
        await activator.reconcile(Key(NAMESPACE, "echo"))
        assert await activator.activator.consumers.functions() == set()
        assert KEY.name == "echo"
