"""The consumers of functions at the broker."""

from __future__ import annotations

import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer
from gpu_runtime.activator.consumers import READ_AGAIN_SECONDS, Consumers
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.subjects import Function
from local.activator.world import ECHO, KEY, NAMESPACE, World, function, world


async def fetched(activator: World) -> list[str]:
    """What a worker of the function gets, by id."""
    name = subjects.consumer(ECHO, "normal")
    subscription = await activator.broker.stream.pull_subscribe_bind(name, stream=INVOCATIONS)
    return [message.subject.split(".")[3] for message in await subscription.fetch(10, timeout=5)]


async def test_each_function_has_one_consumer_for_each_priority(server: NatsServer) -> None:
    async with world(server) as activator:
        await activator.activator.consumers.ensure(ECHO)
        found = {each.name: each.config for each in await activator.broker.stream.consumers_info(INVOCATIONS)}
        ours = {name: config for name, config in found.items() if "__" in name}
        assert set(ours) == {"runtime-instance__echo__n", "runtime-instance__echo__h"}
        normal = ours["runtime-instance__echo__n"]
        assert (normal.filter_subject, normal.ack_wait) == ("inv.runtime-instance.echo.*.*.n", 30.0)
        assert (normal.max_deliver, normal.max_ack_pending) == (-1, -1)


@mutant("serverless/backlog.py", "oldest.sequence if oldest is not None else", "")
async def test_a_new_consumer_brings_what_is_unfinished_and_nothing_older(server: NatsServer) -> None:
    async with world(server) as activator:
        await activator.end(await activator.accept("old"))
        await activator.accept("other", function=Function(NAMESPACE, "other"))
        await activator.accept("waiting")
        await activator.activator.consumers.ensure(ECHO)
        await activator.accept("new")
        assert await fetched(activator) == ["waiting", "new"]


async def test_a_new_consumer_of_an_idle_function_brings_what_comes(server: NatsServer) -> None:
    async with world(server) as activator:
        await activator.end(await activator.accept("old"))
        await activator.activator.consumers.ensure(ECHO)
        info = await activator.broker.stream.consumer_info(INVOCATIONS, subjects.consumer(ECHO, "normal"))
        assert info.num_pending == 0
        await activator.accept("new")
        assert await fetched(activator) == ["new"]


async def test_another_wait_changes_the_consumer_and_loses_nothing(server: NatsServer) -> None:
    async with world(server) as activator:
        backlog = activator.activator.backlog
        await activator.activator.consumers.ensure(ECHO)
        await activator.accept("a")
        changed = Consumers(activator.broker, backlog, 12.0)
        assert await changed.functions() == {ECHO}
        await changed.ensure(ECHO)
        info = await activator.broker.stream.consumer_info(INVOCATIONS, subjects.consumer(ECHO, "normal"))
        assert info.config.ack_wait == 12.0
        assert await fetched(activator) == ["a"]


async def test_a_new_process_finds_the_consumers_that_exist(server: NatsServer) -> None:
    async with world(server) as activator:
        for number in range(300):  # more than the broker lists at a time
            await activator.activator.consumers.ensure(Function(NAMESPACE, f"f-{number}"))
        again = Consumers(activator.broker, activator.activator.backlog, 30.0)
        assert len(await again.functions()) == 300
        assert again._known == activator.activator.consumers._known
        await again.remove(Function(NAMESPACE, "f-7"))
        await again.remove(Function(NAMESPACE, "never"))
        assert len(await again.functions()) == 299


@mutant("activator/consumers.py", "and now - self._read_at < READ_AGAIN_SECONDS", "")
@mutant("activator/registration.py", "or await self.consumers.lacks(Function(*function.metadata.key))", "")
async def test_a_consumer_that_somebody_deleted_is_made_again(server: NatsServer) -> None:
    async with world(server, function()) as activator:
        await activator.settle()
        name = subjects.consumer(ECHO, "normal")
        await activator.broker.stream.delete_consumer(INVOCATIONS, name)
        activator.clock.advance(READ_AGAIN_SECONDS)
        assert await activator.swept() == [KEY]
        await activator.settle()
        assert await activator.swept() == []
        assert (await activator.broker.stream.consumer_info(INVOCATIONS, name)).name == name


@mutant("activator/consumers.py", "self._connection = None  # another", "pass  # another")
async def test_a_consumer_that_another_activator_made_first_is_found(server: NatsServer) -> None:
    async with world(server) as activator:
        ours, theirs = activator.activator.consumers, Consumers(activator.broker, activator.activator.backlog, 30.0)
        await ours.functions()
        await theirs.ensure(ECHO)
        await activator.accept("waiting", function=Function(NAMESPACE, "other"))
        with pytest.raises(BrokerError):  # the broker refuses another place to begin with
            await ours.ensure(ECHO)
        await ours.ensure(ECHO)
        assert not await ours.lacks(ECHO)
