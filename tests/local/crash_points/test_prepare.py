"""The controller that fills storages is stopped before and after every single write of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.fault_proxy.kill import When
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.labels import STORAGE_PREPARE
from gpu_runtime.config import ControllerManagerSettings, StockSettings
from gpu_runtime.controllers.child_kinds.jobs import JOBS
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Client, Manager, Query, load_config
from gpu_runtime.kube.controller import Result, primary
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.local.kinds.pods import PODS
from kube.http.api import Places

MOST_WRITES = 40


@dataclass(frozen=True)
class Flow:
    """What happens before the process that will be stopped starts, and the change that it acts on."""

    before: Callable[[Places, int], Awaitable[None]]
    change: Callable[[Places, int], Awaitable[None]]


async def _has_source(world: Places, n: int) -> None:
    await _create(world, f"source-{n}")
    await _until(world, f"source-{n}", "Ready")


async def _copies(world: Places, n: int) -> None:
    await _create(world, f"data-{n}", prepare={"fromStorageName": f"source-{n}"})


async def _has_failed(world: Places, n: int) -> None:
    await _create(world, f"data-{n}", prepare={"fromImage": "filler", "command": ["fail-first"]})
    await _until(world, f"data-{n}", "Failed")


async def _recovers(world: Places, n: int) -> None:
    patch = {"metadata": {"annotations": {STORAGE_RECOVERY_NONCE: "again"}}}
    await world.client.patch(GPU_STORAGES, Key(world.instance, f"data-{n}"), patch)


FLOWS = {"prepare": Flow(_has_source, _copies), "recover": Flow(_has_failed, _recovers)}


@pytest.mark.parametrize("name", FLOWS)
async def test_a_crash_at_any_write_ends_filled_and_runs_each_attempt_once(
    name: str, world: Places, fault_proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    flow, crashed = FLOWS[name], 0
    sides: tuple[When, ...] = ("before", "after")
    async with pods_end(world):
        for turn, (n, when) in enumerate((n, when) for n in range(1, MOST_WRITES) for when in sides):
            if not await crash(flow, world, fault_proxy, turn, n, when):
                break  # this run needed fewer writes
            crashed += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: crashed at {crashed} points\n")
    assert crashed >= 10


async def crash(flow: Flow, world: Places, proxy: FaultProxy, turn: int, n: int, when: When) -> bool:
    """Whether the process died; in any case, a fresh process ends what it began."""
    async with controllers(world, world.server):
        await flow.before(world, turn)
    async with controllers(world, proxy.server) as process:
        kill = proxy.kill_at(n, process.cancel, when)
        await flow.change(world, turn)

        async def dead_or_done() -> bool:
            return kill._slain.is_set() or await _phase(world, f"data-{turn}") == "Succeeded"

        await eventually(dead_or_done, what=f"the process died {when} write {n}, or needed no such write")
        died = kill._slain.is_set()
    kill.remove()
    async with controllers(world, world.server):
        filled = await _until(world, f"data-{turn}", "Ready")
    status = filled.status.prepare
    assert status is not None
    assert status.phase == "Succeeded"
    selector = f"{CONTROLLED_BY}={filled.metadata.uid}"
    jobs = (await world.client.list(Query(JOBS, world.instance, labels=selector))).items
    pods = (await world.client.list(Query(PODS, world.instance, labels=selector))).items
    assert [job.metadata.name for job in jobs] == [status.jobName]
    ran = [pod for pod in pods if pod.metadata.controller and pod.metadata.controller.uid == jobs[0].metadata.uid]
    assert len(ran) == 1, f"{when} write {n}: the attempt ran {len(ran)} times"
    return died


@asynccontextmanager
async def controllers(world: Places, server: ApiServer) -> AsyncIterator[asyncio.Task[None]]:
    """The controllers as one process that can be ended at once."""
    stop = asyncio.Event()
    settings = ControllerManagerSettings(installNamespace=world.system, stock=StockSettings(namespaces=(world.stock,)))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(load_config(server.kubeconfig), user_agent="controller"))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        manager = Manager(client)
        add_controllers(manager, settings)
        process = group.create_task(manager.run(stop))
        try:
            await asyncio.wait_for(manager.leading.wait(), 60)
            yield process
        finally:
            stop.set()


@asynccontextmanager
async def pods_end(world: Places) -> AsyncIterator[None]:
    """Pods that fill storages end as soon as they run: well, unless their command is to fail the first time."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        node = Manager(world.client)
        pods = node.cache(Query(PODS, labels=STORAGE_PREPARE))

        async def end(key: Key) -> Result:
            pod = pods.get(key)
            if pod is not None and pod.status.phase == "Running":
                with suppress(NotFound, Conflict):
                    await _end(world.client, pod)
            return Result()

        node.controller("ends", end, [primary(pods)])
        group.create_task(node.run(stop))
        try:
            await asyncio.wait_for(node.leading.wait(), 60)
            yield
        finally:
            stop.set()


async def _end(client: Client, pod: Any) -> None:
    fails = pod.spec.containers[0].command == ["fail-first"] and not pod.spec.initContainers
    ended = {"exitCode": 1 if fails else 0, "reason": "Error" if fails else "Completed", "message": "not now"}
    container = {"name": "prepare", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed" if fails else "Succeeded",
        "containerStatuses": [{**container, "state": {"terminated": ended}}],
    }
    patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    await client.patch(PODS, pod.metadata.key, patch, subresource="status")


async def _create(world: Places, name: str, **spec: Any) -> None:
    metadata = {"namespace": world.instance, "name": name}
    await world.client.create(GPU_STORAGES, {"metadata": metadata, "spec": {"size": "1Gi", **spec}})


async def _phase(world: Places, name: str) -> str:
    status = (await world.client.get(GPU_STORAGES, Key(world.instance, name))).status.prepare
    return status.phase if status is not None else ""


async def _until(world: Places, name: str, phase: str) -> GPUStorage:
    async def probe() -> GPUStorage:
        storage = await world.client.get(GPU_STORAGES, Key(world.instance, name))
        assert storage.status.phase == phase, storage.status
        return storage

    return await eventually(probe, what=f"storage {name} is {phase}")
