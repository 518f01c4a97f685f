"""Makes, drains, changes and deletes the units that are workers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import structlog
from nats.errors import Error

from gpu_runtime.activator.caches import Caches
from gpu_runtime.activator.decision import Action, Create, Drain, Patch, Remove
from gpu_runtime.activator.kinds import GPU_UNITS
from gpu_runtime.activator.observation import Memory, Seen
from gpu_runtime.activator.readiness import Blocked, Readiness
from gpu_runtime.activator.resources.children import owned_by
from gpu_runtime.activator.resources.worker import changed, cold_unit, is_made_for, worker_labels
from gpu_runtime.activator.stock import Stock
from gpu_runtime.api.meta.object import wire
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import FUNCTION_WORKER_REFUSED, NAME_CONFLICT
from gpu_runtime.kube.children import changes, identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    Terminal,
    TooManyRequests,
)
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.messages import Control, encode
from gpu_runtime.serverless.subjects import Function

AT_ONCE = 8
REFUSED_SECONDS = 15.0


@dataclass(frozen=True)
class Workers:
    """Carries out decisions. Each write names what it was decided on, so that two activators do no harm."""

    client: Client
    caches: Caches
    broker: Broker
    heartbeats: Heartbeats
    stock: Stock | None = None

    async def carry_out(
        self, function: GPUFunction, seen: Sequence[Seen], memory: Memory, actions: Sequence[Action]
    ) -> None:
        """Does all actions, a few at a time, also if one fails. Then the first failure is raised."""
        by_slot = {each.worker.slot: each for each in seen}
        failures: list[BaseException] = []
        for start in range(0, len(actions), AT_ONCE):
            work = [self._do(function, by_slot, memory, action) for action in actions[start : start + AT_ONCE]]
            done = await asyncio.gather(*work, return_exceptions=True)
            failures += [each for each in done if each is not None]
        if failures:
            raise failures[0]

    async def adopt(self, function: GPUFunction, units: Sequence[GPUUnit]) -> None:
        """Gives workers from stock their owner reference, which a hand-over does not write."""
        for unit in units:
            if unit.metadata.controller is not None or unit.metadata.deletionTimestamp is not None:
                continue
            metadata = {
                **identity(unit.metadata),
                "labels": worker_labels(function, unit.metadata.name),
                "ownerReferences": [*wire(unit.metadata.ownerReferences), wire(owned_by(function))],
            }
            with suppress(NotFound):
                written = await self.client.patch(GPU_UNITS, unit.metadata.key, {"metadata": metadata})
                self.caches.units.wrote(written)

    async def remove(self, unit: GPUUnit) -> None:
        """Deletes exactly this unit."""
        with suppress(NotFound, Conflict):
            await self.client.delete(GPU_UNITS, unit.metadata.key, uid=unit.metadata.uid)

    async def _do(self, function: GPUFunction, by_slot: Mapping[int, Seen], memory: Memory, action: Action) -> None:
        structlog.get_logger("workers").info(
            type(action).__name__.lower(), function=str(function.metadata.key), slot=action.slot
        )
        match action:
            case Create():
                await self._create(function, action.slot)
            case Drain():
                await self._drain(by_slot[action.slot].unit, function)
            case Patch():
                await self._patch(function, by_slot[action.slot], memory)
            case Remove():
                await self._remove(by_slot[action.slot], memory, function)
            case _:
                assert_never(action)

    async def _create(self, function: GPUFunction, slot: int) -> None:
        """Creates the unit from stock, or without. Its name is the claim of the slot: one creator wins."""
        unit: GPUUnit | None = None
        try:
            if self.stock is not None and function.spec.unit.gpu:
                unit = await self.stock.hand_over(function, slot)
            if unit is None:
                unit = await self._create_cold(function, slot)
        except (Conflict, TooManyRequests, Terminal):
            raise
        except (ApiError, ServiceError) as error:
            raise _refused(str(error)) from error
        self.caches.units.wrote(unit)

    async def _create_cold(self, function: GPUFunction, slot: int) -> GPUUnit:
        wanted = cold_unit(function, slot)
        try:
            return await self.client.create(GPU_UNITS, wanted)
        except AlreadyExists:
            live = await self.client.get(GPU_UNITS, wanted.metadata.key)
        if not is_made_for(live, function.metadata.uid):
            message = f"unit {wanted.metadata.key} exists and is not a worker of this function; rename or delete it"
            raise Blocked(Readiness("failed", NAME_CONFLICT, message), seconds=REFUSED_SECONDS)
        return live  # another activator, or a lost answer

    async def _drain(self, unit: GPUUnit, function: GPUFunction) -> None:
        """Tells the worker to take no more. The message may be lost: it is sent until the worker says so."""
        name = Function(*function.metadata.key)
        with suppress(Error, OSError):
            await self.broker.nats.publish(subjects.control(name, unit.metadata.name), encode(Control()))

    async def _patch(self, function: GPUFunction, seen: Seen, memory: Memory) -> None:
        unit = seen.unit
        difference = changes(unit, changed(function, unit))
        if not difference:
            return
        memory.failures.pop(seen.worker.slot, None)
        patch = {**difference, "metadata": identity(unit.metadata)}
        with suppress(NotFound):
            self.caches.units.wrote(await self.client.patch(GPU_UNITS, unit.metadata.key, patch))

    async def _remove(self, seen: Seen, memory: Memory, function: GPUFunction) -> None:
        await self.remove(seen.unit)
        memory.removed.add(seen.unit.metadata.uid)
        self.heartbeats.forget(Function(*function.metadata.key), seen.unit.metadata.name)
        if seen.worker.state == "failed":
            memory.failures[seen.worker.slot] = seen.worker.failures + 1


def _refused(message: str) -> Blocked:
    return Blocked(Readiness("failed", FUNCTION_WORKER_REFUSED, message), seconds=REFUSED_SECONDS)
