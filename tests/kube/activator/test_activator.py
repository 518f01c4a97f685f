"""The life of a function on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.activator.kinds import GPU_FUNCTIONS, HANDLER_MAPS, SECRETS
from gpu_runtime.activator.registration import Activator, add_functions
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.provenance import source_of
from gpu_runtime.config.activator import ActivatorSettings
from gpu_runtime.kube import Client, Manager, NotFound, Query, load_config
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.messages import DEADLINE, InvocationMessage, WorkerHeartbeat, WorkerState, encode
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.cluster import GPU_UNITS
from kube.http.api import Places

SOURCE = "def main(payload):\n    return payload\n"


class FixedSigner:
    identity = "key-1"

    def sign(self, function: Function) -> str:
        return f"credentials of {function}"


@asynccontextmanager
async def activator(world: Places, broker: Broker) -> AsyncIterator[Activator]:
    """A running activator without leader election."""
    settings = ActivatorSettings(installNamespace=world.system, stockNamespace=world.stock)
    stop = asyncio.Event()
    async with Client(load_config(world.server.kubeconfig), user_agent="activator") as client:
        manager = Manager(client)
        made = add_functions(manager, broker, settings, signer=FixedSigner())
        tasks = [asyncio.create_task(manager.run(stop)), asyncio.create_task(made.run())]
        try:
            await eventually(lambda: manager.leading.is_set() and made.backlog.loaded, what="the activator works")
            yield made
        finally:
            stop.set()
            await asyncio.gather(tasks[0], return_exceptions=True)
            tasks[1].cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            await let_go(world)


async def let_go(world: Places) -> None:
    """Without an activator nothing would finish the deletion of the test's namespace."""
    for found in (await world.client.list(Query(GPU_FUNCTIONS, world.instance))).items:
        with suppress(NotFound):
            await world.client.patch(GPU_FUNCTIONS, found.metadata.key, {"metadata": {"finalizers": None}})


async def create(world: Places, **spec: Any) -> None:
    wanted = {"unit": {"specName": "cpu.small", "memory": "256Mi"}, "maxWorkers": 3, "idleTimeoutSeconds": 1, **spec}
    if "image" not in wanted["unit"]:
        wanted["handler"] = {"source": SOURCE}
    document = {"metadata": {"namespace": world.instance, "name": "echo"}, "spec": wanted}
    await world.client.create(GPU_FUNCTIONS, document)


async def accept(world: Places, broker: Broker, count: int) -> list[Run]:
    function, now = Function(world.instance, "echo"), datetime.now(UTC)
    runs = [Run(function, f"i-{number}", 1) for number in range(count)]
    for run in runs:
        message = InvocationMessage(
            invocationID=run.invocation_id,
            serverlessRequestID="echo",
            namespace=world.instance,
            deadline=now + timedelta(hours=1),
            acceptedAt=now,
        )
        headers = {DEADLINE: str(int(message.deadline.timestamp() * 1000))}
        await publish_once(broker, subjects.accepted(run, "normal"), encode(message), headers=headers)
    return runs


async def workers(world: Places, count: int) -> list[GPUUnit]:
    """The units of the function, once there are so many."""

    async def probe() -> tuple[list[GPUUnit]]:
        found = await world.units(world.instance)
        assert len(found) == count, [unit.metadata.name for unit in found]
        return (found,)

    return (await eventually(probe, what=f"{count} workers"))[0]


async def report_ready(world: Places) -> None:
    """What the controller of units reports when their pods run."""
    for unit in await world.units(world.instance):
        ready = {"type": "Ready", "status": "True", "reason": "UnitReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Ready", "observedGeneration": unit.metadata.generation, "conditions": [ready]}
        await world.client.patch(GPU_UNITS, unit.metadata.key, {"status": status}, subresource="status")


async def beat(world: Places, broker: Broker, state: WorkerState = "ready") -> None:
    """A heartbeat of each worker, which has nothing to do."""
    now = datetime.now(UTC).timestamp()
    for unit in await world.units(world.instance):
        function = Function(world.instance, "echo")
        said = WorkerHeartbeat(
            namespace=world.instance,
            function="echo",
            workerName=unit.metadata.name,
            state=state,
            idleSince=now,
            sentAt=now,
        )
        await broker.nats.publish(subjects.heartbeat(function, unit.metadata.name), encode(said))


async def phase(world: Places, wanted: str) -> None:
    async def probe() -> bool:
        found = await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))
        assert found.status.phase == wanted, found.status
        return True

    await eventually(probe, what=f"the function is {wanted}")


async def test_a_function_grows_with_its_queue_and_shrinks_to_nothing(world: Places, broker: NatsServer) -> None:
    async with broker.connection() as connection, activator(world, connection):
        await create(world)
        await phase(world, "Idle")
        runs = await accept(world, connection, 2)
        made = await workers(world, 2)
        assert [unit.metadata.name for unit in made] == ["fn-echo-0", "fn-echo-1"]
        sources = await world.client.list(Query(HANDLER_MAPS, world.instance, labels="runtime.lokiwager.io/function"))
        assert [each.data for each in sources.items] == [{"handler.py": SOURCE}]
        secrets = await world.client.list(Query(SECRETS, world.instance, labels="runtime.lokiwager.io/function"))
        assert len(secrets.items) == 1
        await report_ready(world)
        await beat(world, connection)
        await phase(world, "Ready")
        for run in runs:
            await publish_once(connection, subjects.ended(run), b"{}")

        async def drained() -> bool:
            await beat(world, connection, "draining")
            return not await world.units(world.instance)

        await eventually(drained, what="the workers are gone")
        await phase(world, "Idle")


async def test_workers_with_gpus_come_from_stock_and_are_made_cold_when_there_is_none(
    world: Places, broker: NatsServer
) -> None:
    async with world.api() as api:
        await world.seed(api, 2)
    async with broker.connection() as connection, activator(world, connection):
        await create(world, unit={"specName": "g1.1", "image": "echo:1", "gpu": 1, "memory": "1Gi"})
        await accept(world, connection, 3)
        made = await workers(world, 3)
        assert sorted(source_of(unit) is not None for unit in made) == [False, True, True]
        assert await world.free_stock() == []

        async def adopted() -> bool:
            owners = [unit.metadata.controller for unit in await world.units(world.instance)]
            return all(owner is not None and owner.kind == "GPUFunction" for owner in owners)

        await eventually(adopted, what="every worker has its owner")
        assert all(unit.spec.serverless.requestID == "echo" for unit in made)


async def test_stock_of_another_size_is_not_used(world: Places, broker: NatsServer) -> None:
    async with world.api() as api:
        await world.seed(api, 1)
    async with broker.connection() as connection, activator(world, connection):
        await create(world, unit={"specName": "g1.1", "image": "echo:1", "gpu": 2, "memory": "1Gi"})
        await accept(world, connection, 1)
        made = await workers(world, 1)
        assert [(unit.spec.gpu, source_of(unit)) for unit in made] == [(2, None)]
        assert len(await world.units(world.stock)) == 1


async def test_a_deleted_function_leaves_nothing(world: Places, broker: NatsServer) -> None:
    async with broker.connection() as connection, activator(world, connection) as running:
        await create(world, minWorkers=2)
        await workers(world, 2)
        await world.client.delete(GPU_FUNCTIONS, Key(world.instance, "echo"))

        async def gone() -> bool:
            try:
                await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))
            except NotFound:
                return True
            return False

        await eventually(gone, what="the function is gone")
        assert await world.units(world.instance) == []
        assert Function(world.instance, "echo") not in await running.consumers.functions()


async def test_two_activators_make_one_set_of_workers(world: Places, broker: NatsServer) -> None:
    async with (
        broker.connection() as connection,
        broker.connection() as other,
        activator(world, connection),
        activator(world, other),
    ):
        await create(world)
        await accept(world, connection, 2)
        made = await workers(world, 2)
        await report_ready(world)
        await beat(world, connection)
        await phase(world, "Ready")
        assert [unit.metadata.uid for unit in await workers(world, 2)] == [unit.metadata.uid for unit in made]


async def test_a_function_at_rest_costs_no_write(world: Places, broker: NatsServer) -> None:
    async with broker.connection() as connection, activator(world, connection) as running:
        await create(world, minWorkers=1)
        await workers(world, 1)
        await report_ready(world)
        await beat(world, connection)
        await phase(world, "Ready")
        before = await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))
        units = await world.units(world.instance)
        for _ in range(5):
            await running.controller._reconcile(Key(world.instance, "echo"))
        after = await world.client.get(GPU_FUNCTIONS, Key(world.instance, "echo"))
        assert after.metadata.resourceVersion == before.metadata.resourceVersion
        assert await world.units(world.instance) == units
