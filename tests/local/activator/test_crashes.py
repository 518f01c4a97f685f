"""An activator that is killed at any write leaves the work to the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from equipment.builders import Builder
from equipment.nats import NatsServer
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.annotations import FUNCTION_FINALIZER
from local.activator.test_deletion import delete, is_gone
from local.activator.test_handlers import ONE, TWO, sourced
from local.activator.test_static_workers import FixedSigner
from local.activator.world import ECHO, World, worlds


class Killed(BaseException):
    """The process dies here. No `except` of the product sees it."""


class Mortal:
    """Lets the API die before or after its n-th write, and does nothing more after that."""

    def __init__(self, world: World, number: int, *, after: bool) -> None:
        self.world, self.number, self.after, self.count = world, number, after, 0
        for name in ("create", "replace", "patch", "delete"):
            setattr(world.api, name, self._dying(getattr(world.api, name)))

    def _dying(self, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count > self.number or (self.count == self.number and not self.after):
                raise Killed
            answer = await write(*arguments, **named)
            if self.count == self.number:
                raise Killed
            return answer

        return call

    def revive(self) -> None:
        for name in ("create", "replace", "patch", "delete"):
            delattr(self.world.api, name)


async def grow(world: World) -> None:
    """From nothing to two workers."""
    await world.reconcile()
    await world.reconcile()


async def roll(world: World) -> None:
    """The second source goes to the worker."""
    world.beat(0, "draining")
    for _ in range(3):
        await world.reconcile()


async def shrink(world: World) -> None:
    world.clock.advance(100.0)
    for slot in world.slots:
        world.beat(slot, "draining", idle=100.0)
    for _ in range(3):
        await world.reconcile()


async def remove(world: World) -> None:
    for _ in range(3):
        await world.reconcile()


def summary(world: World) -> list[str]:
    """Everything there is, without versions and times."""
    kinds = ("GPUFunction", "GPUUnit", "ConfigMap", "Secret")
    found = []
    for kind in kinds:
        for document in world.api.of_kind(kind):
            spec, meta = document.get("spec", {}), document["metadata"]
            handler = spec.get("serverless", {}).get("handler", {}).get("configMapName", "")
            phase = document.get("status", {}).get("phase", "") if kind == "GPUFunction" else ""
            found.append(f"{kind} {meta['name']} {handler} {phase}")
    return sorted(found)


@asynccontextmanager
async def prepared(server: NatsServer, step: str) -> AsyncIterator[tuple[World, World]]:
    """Two activators, the first of which dies in this step."""
    async with worlds(server, sourced(ONE), count=2, signer=FixedSigner()) as (first, second):
        if step == "grow":
            await first.accept("a")
            await first.accept("b")
            await eventually(lambda: second.activator.backlog.load(ECHO) == 2, what="both see it")
        else:
            await first.settle()
            first.ready(0)
            second.beat(0)
            await first.settle()
        if step == "roll":
            first.api.put(sourced(TWO).kept_by(FUNCTION_FINALIZER).at_generation(2))
        if step == "shrink":
            first.api.put(Builder(sourced(ONE).spec(minWorkers=0).document()).kept_by(FUNCTION_FINALIZER))
            await first.reconcile()
            await second.reconcile()
        if step == "remove":
            delete(first)
        yield first, second


STEPS: dict[str, Callable[[World], Awaitable[None]]] = {"grow": grow, "roll": roll, "shrink": shrink, "remove": remove}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_the_next_activator_finishes_the_work(server: NatsServer, step: str, after: bool) -> None:
    async with prepared(server, step) as (first, _):
        await STEPS[step](first)
        want, writes = summary(first), len(first.api.writes)
    assert writes
    for number in range(1, writes + 1):
        async with restarted(server), prepared(server, step) as (first, second):
            mortal = Mortal(first, number, after=after)
            with suppress(Killed):
                await STEPS[step](first)
            mortal.revive()
            await STEPS[step](second)
            assert summary(second) == want, f"{step} died {'after' if after else 'before'} write {number}"
            if step == "remove":
                assert is_gone(second)


@asynccontextmanager
async def restarted(server: NatsServer) -> AsyncIterator[None]:
    """Empties the streams: each turn begins with nothing."""
    async with server.connection() as broker:
        for stream in ("INVOCATIONS", "RESULTS"):
            await broker.stream.purge_stream(stream)
        yield
