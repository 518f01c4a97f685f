"""Functions without a GPUFunction: units that users made as workers. They need consumers and credentials, no more."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from gpu_runtime.activator.caches import Caches
from gpu_runtime.activator.consumers import Consumers
from gpu_runtime.activator.credentials import Credentials
from gpu_runtime.activator.ending import Ender, Ending
from gpu_runtime.activator.kinds import GPU_FUNCTIONS, GPU_UNITS
from gpu_runtime.activator.resources import names
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import Conflict, NotFound
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.subjects import Function

ABANDONED_SECONDS = 30.0
"""How long invocations without a function wait for one to appear, before they are ended."""
NO_FUNCTION = Ending("failed", "function_deleted", "there is neither a function of this name nor a worker for it")


@dataclass(frozen=True)
class StaticWorkers:
    """Reconciles the names for which there is no GPUFunction."""

    client: Client
    caches: Caches
    backlog: Backlog
    consumers: Consumers
    credentials: Credentials
    ender: Ender
    clock: Clock
    absent: dict[Key, float] = field(default_factory=dict)
    """Since when a name with unfinished invocations has had no worker."""

    async def reconcile(self, key: Key) -> Result:
        function = Function(*key)
        units = [unit for unit in self.caches.units_of(key) if unit.metadata.deletionTimestamp is None]
        static = [unit for unit in units if is_static(unit)]
        for unit in units:
            if is_abandoned(unit):
                await self._remove_abandoned(unit, key)
        if static:
            return await self._serve(function)
        if self.backlog.load(function):
            return await self._end_abandoned(key, function)
        self.absent.pop(key, None)
        await self.consumers.remove(function)
        await self.credentials.remove(function)
        return Result()

    async def _serve(self, function: Function) -> Result:
        self.absent.pop(Key(*function), None)
        if "_" in function.name:
            structlog.get_logger("static-workers").warning(
                "a function's name must not contain '_': its units get no invocations", function=str(function)
            )
            return Result()
        await self.credentials.ensure(function, None)
        await self.consumers.ensure(function)
        return Result()

    async def _end_abandoned(self, key: Key, function: Function) -> Result:
        """Ends invocations that were accepted while their function was deleted."""
        now = self.clock.monotonic()
        wait = self.absent.setdefault(key, now) + ABANDONED_SECONDS - now
        if wait > 0:
            return Result(wait)
        if await self._exists(key):
            return Result(ABANDONED_SECONDS)
        await self.ender.end_all(self.backlog.runs(function), NO_FUNCTION)
        return Result(1.0)

    async def _exists(self, key: Key) -> bool:
        """Whether there is a function or a worker of this name, by live reads: a cache must not decide a no."""
        try:
            await self.client.get(GPU_FUNCTIONS, key)
        except NotFound:
            listing = await self.client.list(Query(GPU_UNITS, key.namespace))
            return any(unit.spec.serverless.requestID == key.name and is_static(unit) for unit in listing.items)
        return True

    async def _remove_abandoned(self, unit: GPUUnit, key: Key) -> None:
        """Deletes a worker whose hand-over was finished after its function was gone. It has no owner reference yet."""
        try:
            await self.client.get(GPU_FUNCTIONS, key)
        except NotFound:
            try:
                await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)
            except (NotFound, Conflict):
                return


def is_abandoned(unit: GPUUnit) -> bool:
    """Whether an activator made the unit from stock and has not written its owner yet."""
    made_by = unit.metadata.annotations.get(notes.OPERATION_ID, "")
    slot = names.slot_of(unit.spec.serverless.requestID or "", unit.metadata.name)
    return unit.metadata.controller is None and slot is not None and names.is_operation(made_by, slot)


def is_static(unit: GPUUnit) -> bool:
    """Whether a user made the unit."""
    return unit.metadata.controller is None and not is_abandoned(unit)
