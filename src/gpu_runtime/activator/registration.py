"""Adds the reconciler of functions to a manager, with its caches and the changes that trigger it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from gpu_runtime.activator.caches import Caches, function_of, function_of_handler
from gpu_runtime.activator.consumers import Consumers
from gpu_runtime.activator.credentials import Credentials, Signer
from gpu_runtime.activator.deletion import Deletion
from gpu_runtime.activator.ending import Ender
from gpu_runtime.activator.expiry import Expiry
from gpu_runtime.activator.handlers import Handlers
from gpu_runtime.activator.kinds import GPU_FUNCTIONS
from gpu_runtime.activator.observation import Limits
from gpu_runtime.activator.reconcile import FunctionReconciler
from gpu_runtime.activator.scaling import Scaling
from gpu_runtime.activator.static_workers import StaticWorkers
from gpu_runtime.activator.stock import Stock
from gpu_runtime.activator.workers import Workers
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.config.activator import ActivatorSettings
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Controller, Source, mapped, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.finalizer import Finalizer
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.status_writer import StatusWriter
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.service.platform import Platform

BUSY_SECONDS = 0.25
"""A function is reconciled at most once in this time for changes of its queue, unless it has no worker."""
SWEEP_SECONDS = 15.0


@dataclass(frozen=True)
class Activator:
    """Everything that runs in the process beside the manager."""

    controller: Controller
    backlog: Backlog
    heartbeats: Heartbeats
    expiry: Expiry
    caches: Caches
    consumers: Consumers
    stock: Stock

    async def run(self) -> None:
        """Runs until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.backlog.run())
                group.create_task(self.heartbeats.run())
                group.create_task(self.expiry.run())
                group.create_task(self._sweep())
        finally:
            self.stock.after_reply.stop()

    def queue_changed(self, function: Function) -> None:
        """The first invocation of a function without workers is urgent: one must start for it."""
        if not self.controller.running:
            return
        if self.backlog.load(function) == 1 and not self.heartbeats.of(function):
            self.controller.queue.add(Key(*function), urgent=1)
        else:
            self.controller.queue.add_after(Key(*function), BUSY_SECONDS)

    def worker_changed(self, function: Function) -> None:
        if self.controller.running:
            self.controller.queue.add(Key(*function), urgent=1)

    async def sweep(self) -> None:
        """Reconciles what no change brings back: names without a GPUFunction, functions that lost a consumer, and
        functions with a worker that starts, which may wait for credentials that somebody deleted."""
        names = {Key(*function) for function in self.backlog.functions()}
        names |= {Key(*function) for function in await self.consumers.functions()}
        names |= {key for unit in self.caches.units.store for key in function_of(unit)}
        for key in names:
            if self.caches.functions.get(key) is None:
                self.controller.queue.add(key)
        for function in list(self.caches.functions.store):
            if self._starts_a_worker(function) or await self.consumers.lacks(Function(*function.metadata.key)):
                self.controller.queue.add(function.metadata.key)

    def _starts_a_worker(self, function: GPUFunction) -> bool:
        return any(unit.status.phase != "Ready" for unit in self.caches.units_of(function.metadata.key))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS if self.controller.running else 1.0)
            if self.controller.running and self.backlog.loaded:
                try:
                    await self.sweep()
                except BrokerError:
                    continue  # the next one comes soon


def add_functions(
    manager: Manager,
    broker: Broker,
    settings: ActivatorSettings,
    *,
    signer: Signer | None = None,
    recorder: Recorder | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Activator:
    """Adds the controller to the manager. Run the result beside the manager."""
    client, caches = manager.client, Caches.of(manager)
    platform = Platform(
        system_namespace=settings.installNamespace,
        stock_namespace=settings.stockNamespace,
        allowed_namespaces=("*",),  # the runtime-api decided where functions may be
    )
    stock = Stock.of(client, manager, platform, clock)
    backlog, heartbeats = Backlog(broker, clock), Heartbeats(broker, clock)
    consumers = Consumers(broker, backlog, settings.ackWaitSeconds, clock)
    credentials = Credentials(client, signer, clock)
    ender = Ender(broker, backlog, clock)
    workers = Workers(client, caches, broker, heartbeats, stock)
    limits = Limits(ready_seconds=settings.workerReadySeconds)
    scaling = Scaling(caches, backlog, heartbeats, workers, clock, limits)
    finalizer = Finalizer(FUNCTION_FINALIZER, GPU_FUNCTIONS, caches.functions, client)
    reconciler = FunctionReconciler(
        caches=caches,
        backlog=backlog,
        finalizer=finalizer,
        consumers=consumers,
        handlers=Handlers(client, caches),
        credentials=credentials,
        scaling=scaling,
        deletion=Deletion(client, finalizer, backlog, scaling, workers, consumers, credentials, ender),
        static_workers=StaticWorkers(client, caches, backlog, consumers, credentials, ender, clock),
        status=StatusWriter(
            GPU_FUNCTIONS, caches.functions, client, owns=(READY,), time_field="lastSyncTime", clock=clock
        ),
        recorder=recorder,
    )
    sources: list[Source[Any]] = [
        primary(caches.functions.store),
        mapped(caches.units.store, function_of),
        mapped(caches.handlers.store, function_of_handler),
    ]
    controller = manager.controller("gpufunction", reconciler.reconcile, sources, workers=settings.workers)
    expiry = Expiry(backlog, heartbeats, ender, clock, manager.leading.is_set)
    activator = Activator(controller, backlog, heartbeats, expiry, caches, consumers, stock)
    backlog.subscribe(activator.queue_changed)
    heartbeats.subscribe(activator.worker_changed)
    return activator
