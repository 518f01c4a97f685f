"""The node agent: everything that turns Pods bound to this node into running ones, wired together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, cast

import aiohttp
import msgspec

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.kube.controller import Controller, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.services import ENDPOINT_SLICES, SERVICES
from gpu_runtime.local.node.agent.backoff import FIRST_SECONDS, MOST_SECONDS, Backoff
from gpu_runtime.local.node.agent.eviction import LOOK_SECONDS, Evictor
from gpu_runtime.local.node.agent.hooks import Hooks
from gpu_runtime.local.node.agent.images import Images
from gpu_runtime.local.node.agent.node import Machine, NodeKeeper, describe_machine
from gpu_runtime.local.node.agent.pods import PodKeeper
from gpu_runtime.local.node.agent.probing import Probing
from gpu_runtime.local.node.agent.reporting import Reporter
from gpu_runtime.local.node.agent.services import ServiceKeeper
from gpu_runtime.local.node.agent.starting import Starter
from gpu_runtime.local.node.agent.stopping import Stopper
from gpu_runtime.local.node.agent.volumes import Volumes
from gpu_runtime.local.node.runtime import PodRuntime

WORKERS = 16
STOP_SECONDS = 30.0
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


@dataclass(frozen=True)
class _Parts:
    """What the parts of the agent share."""

    client: Client
    runtime: PodRuntime
    options: NodeOptions
    machine: Machine
    manager: Manager
    recorder: Recorder
    session: aiohttp.ClientSession
    tasks: asyncio.TaskGroup

    def event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        self.recorder.event(PODS, pod, reason, message, type=cast(Literal["Normal", "Warning"], kind))

    def warn(self, pod: Pod, reason: str, message: str) -> None:
        self.event(pod, "Warning", reason, message)


@asynccontextmanager
async def node_agent(client: Client, runtime: PodRuntime, options: NodeOptions) -> AsyncIterator[NodeKeeper]:
    """Runs the agent inside the block. Leaving it leaves the pods running; `runtime.shutdown()` ends them."""
    address = runtime.network.gateway if runtime.network.bridge else LOOPBACK
    machine = describe_machine(options.name, address, runtime.data_dir, runtime.gpus, simulated=options.simulated)
    recorder = Recorder(client, "kubelet", options.name)
    manager = Manager(client, recorder=recorder)
    services = ServiceKeeper(runtime, manager.cache(Query(SERVICES)), manager.cache(Query(ENDPOINT_SLICES)))
    node = NodeKeeper(client, machine, SYSTEM_CLOCK, schedulable=options.schedulable)
    stop = asyncio.Event()
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks, services:
        keeper, controller = _pod_keeper(_Parts(client, runtime, options, machine, manager, recorder, session, tasks))
        evictor = Evictor(runtime.data_dir, keeper.running, keeper.evict, options.look_seconds)
        await node.register()
        working = tasks.create_task(manager.run(stop))
        background = [
            tasks.create_task(each)
            for each in (node.run(), services.run(), evictor.run(), _follow(runtime, manager, controller))
        ]
        try:
            await manager.leading.wait()
            yield node
        finally:
            stop.set()
            await asyncio.wait([working], timeout=STOP_SECONDS)
            for task in (working, *background):
                task.cancel()
            for memory in keeper.memories.values():
                memory.stop_probing()


def _pod_keeper(parts: _Parts) -> tuple[PodKeeper, Controller]:
    """The reconciler of Pods and the controller that runs it."""
    client, runtime, manager = parts.client, parts.runtime, parts.manager
    pods = manager.cache(Query(PODS, fields=f"spec.nodeName={parts.options.name}"))
    volumes = Volumes(client, runtime.data_dir, runtime.hides)
    starter = Starter(
        client=client,
        runtime=runtime,
        volumes=volumes,
        images=Images(parts.options.missing_images, _backoff(parts.options)),
        backoff=_backoff(parts.options),
        services=manager.cache(Query(SERVICES)),
        host_ip=parts.machine.address,
        allocatable=parts.machine.capacity,
        now=time.time,
        event=parts.event,
    )
    probing = Probing(
        runtime, parts.session, parts.tasks, wake=lambda pod: controller.queue.add(pod.metadata.key), warn=parts.warn
    )
    hooks = Hooks(runtime, parts.session, parts.tasks, parts.event)
    keeper = PodKeeper(
        client=client,
        runtime=runtime,
        store=pods,
        volumes=volumes,
        starter=starter,
        probing=probing,
        hooks=hooks,
        stopper=Stopper(runtime, hooks, parts.event),
        reporter=Reporter(client, runtime, parts.machine.address),
        event=parts.event,
        host_ip=parts.machine.address,
    )
    controller = manager.controller("pods", keeper.reconcile, [primary(pods)], workers=WORKERS)
    return keeper, controller


def _backoff(options: NodeOptions) -> Backoff:
    return Backoff(options.backoff_seconds, options.longest_backoff_seconds)


async def _follow(runtime: PodRuntime, manager: Manager, controller: Controller) -> None:
    """Enqueues every pod that the runtime reports as changed; the adopted ones come first."""
    await manager.leading.wait()
    for sandbox in runtime.pods():
        controller.queue.add(Key(sandbox.spec.namespace, sandbox.spec.name))
    async for change in runtime.changes():
        changed = runtime.get(change.uid)
        if changed:
            controller.queue.add(Key(changed.spec.namespace, changed.spec.name))
