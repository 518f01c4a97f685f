"""The process that works on an operation is stopped before and after every single write of it."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from equipment.fault_proxy import FaultProxy
from equipment.judge import conservation, orphans
from equipment.mutation import mutant
from kube.http.api import Places
from local.crash_points.flows import FLOWS, clean_run, crash, in_this_process, reconciling


@mutant(
    "api/v1alpha1/provenance.py",
    "return notes | ({SOURCE_STOCK_NODE: choice.nodeName} if choice.nodeName else {})",
    "return notes",
)
@pytest.mark.parametrize("name", FLOWS)
async def test_a_crash_at_any_write_ends_clean_or_untouched_and_a_replay_ends_clean(
    name: str, world: Places, fault_proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    async with reconciling(world), world.witnessed() as witness:
        clean = await clean_run(FLOWS[name], world, fault_proxy)
        start, crashed = partial(in_this_process, world, fault_proxy), 0
        for turn, point in enumerate(clean.points, 1):
            await crash(clean, start, world, fault_proxy, turn, point)
            crashed += 1
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {clean.writes} writes, crashed at {crashed} points\n")
        assert crashed == 2 * clean.writes
        seen = await world.seen(witness)
        assert conservation(seen, stock_namespace=world.stock) == []
        assert orphans(await world.listing(), stock_namespace=world.stock) == []
