"""The node agent: everything that turns Pods bound to this node into running ones, wired together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, cast

import aiohttp
import msgspec

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.kube.controller import Controller, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.local.node.agent.backoff import FIRST_SECONDS, MOST_SECONDS, Backoff
from gpu_runtime.local.node.agent.eviction import LOOK_SECONDS, Evictor
from gpu_runtime.local.node.agent.hooks import Hooks
from gpu_runtime.local.node.agent.images import Images
from gpu_runtime.local.node.agent.kinds import ENDPOINT_SLICES, PODS, SERVICES, Pod
from gpu_runtime.local.node.agent.node import NodeKeeper, describe_machine
from gpu_runtime.local.node.agent.pods import PodKeeper
from gpu_runtime.local.node.agent.probing import Probing
from gpu_runtime.local.node.agent.services import ServiceKeeper
from gpu_runtime.local.node.agent.starting import Starter
from gpu_runtime.local.node.agent.volumes import Volumes
from gpu_runtime.local.node.runtime import PodRuntime

WORKERS = 16
LOOPBACK = "127.0.0.1"


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the node is called and how it behaves. `missing_images` are patterns of images that cannot be pulled."""

    name: str
    simulated: bool = True
    schedulable: bool = True
    missing_images: list[str] = []
    backoff_seconds: float = FIRST_SECONDS
    longest_backoff_seconds: float = MOST_SECONDS
    look_seconds: float = LOOK_SECONDS


@asynccontextmanager
async def node_agent(client: Client, runtime: PodRuntime, options: NodeOptions) -> AsyncIterator[NodeKeeper]:
    """Runs the agent inside the block. Leaving it leaves the pods running; `runtime.shutdown()` ends them."""
    address = runtime.network.gateway if runtime.network.bridge else LOOPBACK
    machine = describe_machine(options.name, address, runtime.data_dir, runtime.gpus, simulated=options.simulated)
    recorder = Recorder(client, "kubelet", options.name)
    manager = Manager(client, recorder=recorder)
    pods = manager.cache(Query(PODS, fields=f"spec.nodeName={options.name}"))
    services = ServiceKeeper(runtime, manager.cache(Query(SERVICES)), manager.cache(Query(ENDPOINT_SLICES)))
    node = NodeKeeper(client, machine, SYSTEM_CLOCK, schedulable=options.schedulable)
    stop = asyncio.Event()

    def say(pod: Pod, kind: str, reason: str, message: str) -> None:
        recorder.event(PODS, pod, reason, message, type=cast(Literal["Normal", "Warning"], kind))

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks, services:
        controllers: list[Controller] = []

        def wake(key: Key) -> None:
            controllers[0].queue.add(key)

        volumes = Volumes(client, runtime.data_dir)
        starter = Starter(
            client=client,
            runtime=runtime,
            volumes=volumes,
            images=Images(options.missing_images, _backoff(options)),
            backoff=_backoff(options),
            services=manager.cache(Query(SERVICES)),
            host_ip=address,
            allocatable=machine.capacity,
            now=time.time,
            say=say,
        )
        probing = Probing(
            runtime,
            session,
            tasks,
            wake=lambda pod: wake(pod.metadata.key),
            warn=lambda pod, reason, message: say(pod, "Warning", reason, message),
        )
        keeper = PodKeeper(
            client=client,
            runtime=runtime,
            store=pods,
            volumes=volumes,
            starter=starter,
            probing=probing,
            hooks=Hooks(runtime, session, tasks, say),
            say=say,
            host_ip=address,
        )
        controllers.append(manager.controller("pods", keeper.reconcile, [primary(pods)], workers=WORKERS))
        await node.register()
        evictor = Evictor(runtime.data_dir, keeper.running, keeper.evict, options.look_seconds)
        running = [
            tasks.create_task(manager.run(stop)),
            tasks.create_task(evictor.run()),
            tasks.create_task(node.run()),
            tasks.create_task(services.run()),
            tasks.create_task(_follow(runtime, manager, controllers[0])),
        ]
        try:
            await manager.leading.wait()
            yield node
        finally:
            stop.set()
            await asyncio.wait(running[:1], timeout=30)
            for task in running:
                task.cancel()
            for memory in keeper.memories.values():
                memory.stop_probing()


def _backoff(options: NodeOptions) -> Backoff:
    return Backoff(options.backoff_seconds, options.longest_backoff_seconds)


async def _follow(runtime: PodRuntime, manager: Manager, controller: Controller) -> None:
    """Wakes the reconciler for every pod of which the runtime has news, first of all for those that it adopted."""
    await manager.leading.wait()
    for sandbox in runtime.pods():
        controller.queue.add(Key(sandbox.spec.namespace, sandbox.spec.name))
    async for change in runtime.changes():
        sandbox_ = runtime.get(change.uid)
        if sandbox_:
            controller.queue.add(Key(sandbox_.spec.namespace, sandbox_.spec.name))
