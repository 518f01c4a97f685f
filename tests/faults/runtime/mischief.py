"""Faults between a manager and its API server, chosen and timed at random: pauses, cuts, slow renewals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from equipment.fault_proxy import Fault, FaultProxy, calls, updates, watches, writes
from equipment.waiting import eventually
from gpu_runtime.kube import Terms


async def passed(seconds: float) -> None:
    end = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= end, within=seconds + 60)


async def lasting(seconds: float, *faults: Fault) -> None:
    """Keeps the faults in force for `seconds`, then undoes them."""
    try:
        await passed(seconds)
    finally:
        for fault in faults:
            fault.remove()


@dataclass(frozen=True)
class Mischief:
    """Chooses faults for a manager whose election has these times."""

    terms: Terms

    def choose(self, rng: Random) -> tuple[str, Callable[[FaultProxy], Awaitable[None]]]:
        name = rng.choice(["pause", "requests pause", "watches pause", "refuse", "cut", "lose", "slow renewal"])
        seconds = rng.uniform(0.1, 2.0) * self.terms.give_up
        lost = rng.randint(1, 4)
        # Around the end of the term: a renewal that is answered just before it, just after it, or never.
        late = self.terms.give_up + rng.uniform(-1.0, 4.0) * self.terms.retry
        when = rng.choice(["before", "after"])

        def act(proxy: FaultProxy) -> Awaitable[None]:
            match name:
                case "pause":
                    return lasting(seconds, proxy.on(calls()).hold(), proxy.on(watches()).freeze())
                case "requests pause":
                    return lasting(seconds, proxy.on(calls() & ~watches()).hold())
                case "watches pause":
                    return lasting(seconds, proxy.on(watches()).freeze())
                case "refuse":
                    return lasting(seconds, proxy.on(calls()).answer(503))
                case "cut":
                    return lasting(seconds, proxy.on(calls(), times=lost).drop_request(), proxy.on(watches()).cut())
                case "lose":
                    return lasting(seconds, proxy.on(writes(), times=lost).drop_response())
                case _:
                    renewal = proxy.on(updates("leases"), times=1)
                    return lasting(late, renewal.hold("before" if when == "before" else "after"))

        return f"{name} {late if name == 'slow renewal' else seconds:.2f} s", act


async def together(*work: Awaitable[None]) -> None:
    await asyncio.gather(*work)
