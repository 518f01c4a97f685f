"""Two activators that both believe to lead: names decide, not memory."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from equipment.mutation import mutant
from equipment.nats import NatsServer
from equipment.waiting import eventually
from local.activator.world import ECHO, World, function, worlds


async def seen_by_all(all_worlds: list[World], load: int) -> None:
    await eventually(
        lambda: all(each.activator.backlog.load(ECHO) == load for each in all_worlds), what=f"all see {load} runs"
    )


@mutant(
    "activator/resources/names.py", 'return f"fn-{function}-{slot}"', 'return f"fn-{function}-{slot}{id(object())}"'
)
async def test_both_make_the_same_workers(server: NatsServer) -> None:
    async with worlds(server, function(), count=2) as both:
        await both[0].accept("a")
        await both[0].accept("b")
        await seen_by_all(both, 2)
        for each in both:
            each.api.fill(each.manager)
        await asyncio.gather(*(each.reconcile(fresh=False) for each in both), return_exceptions=True)
        assert both[0].slots == [0, 1]
        for each in (*both, *both):
            await each.reconcile()
        assert both[0].slots == [0, 1]


@pytest.mark.parametrize("seed", range(10))
async def test_with_old_caches_they_never_make_more_than_max_workers(server: NatsServer, seed: int) -> None:
    """Each sees the cluster as it was some time ago, and each decides at any time."""
    rng = Random(seed)
    async with worlds(server, function(maxWorkers=2, idleTimeoutSeconds=5), count=3) as all_worlds:
        first, runs = all_worlds[0], []
        for step in range(60):
            acting = rng.choice(all_worlds)
            match rng.randrange(6):
                case 0:
                    runs.append(await first.accept(f"i-{step}"))
                    await seen_by_all(all_worlds, len(runs))
                case 1 if runs:
                    await first.end(runs.pop(rng.randrange(len(runs))))
                    await seen_by_all(all_worlds, len(runs))
                case 2:
                    first.clock.advance(rng.choice([0.5, 3.0, 10.0]))
                case 3:
                    acting.api.fill(acting.manager)
                case 4:
                    for slot in first.slots:
                        first.report(slot, rng.choice(["Ready", "Ready", "Failed"]))
                        for each in all_worlds:
                            each.beat(slot, rng.choice(["ready", "draining"]), running=rng.randrange(2))
                case _:
                    await asyncio.gather(acting.reconcile(fresh=False), return_exceptions=True)
            assert len(first.slots) <= 2
        for _ in range(3):
            for each in all_worlds:
                await asyncio.gather(each.reconcile(), return_exceptions=True)
        assert len(first.slots) <= 2
        if runs:
            assert first.slots
