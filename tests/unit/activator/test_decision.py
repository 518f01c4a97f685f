"""What the activator decides, by what it sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from equipment.mutation import mutant
from gpu_runtime.activator.decision import (
    SCALE_OUT_SECONDS,
    Action,
    Create,
    Drain,
    Patch,
    Policy,
    Remove,
    Worker,
    decide,
)
from gpu_runtime.activator.demand import Demand

NOW = 10_000.0
POLICY = Policy(concurrency=2, min_workers=0, max_workers=4, idle_seconds=30.0)
ONE_STAYS = Policy(concurrency=2, min_workers=1, max_workers=4, idle_seconds=30.0)


def needed(*numbers: int, seconds: float = 100.0, policy: Policy = POLICY) -> Demand:
    """Loads that lasted `seconds` each, the last one until now."""
    demand = Demand(NOW - seconds * len(numbers))
    for place, load in enumerate(numbers):
        demand.observe(NOW - seconds * (len(numbers) - place), policy.needed(load))
    demand.observe(NOW, policy.needed(numbers[-1]))
    return demand


def ready(slot: int, **fields: object) -> Worker:
    return Worker(slot, "ready", **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    demand: Demand
    workers: Sequence[Worker] = ()
    want: Sequence[Action] = ()
    policy: Policy = POLICY
    again: float | None = None


ROWS = {
    "nothing is queued and no worker is there: nothing happens": Row(needed(0)),
    "one invocation from zero starts one worker at once": Row(needed(0, 1, seconds=0.01), want=[Create(0)]),
    "each worker takes its concurrency": Row(needed(5), want=[Create(0), Create(1), Create(2)]),
    "a long queue starts no more than maxWorkers": Row(needed(1000), want=[Create(slot) for slot in range(4)]),
    "minWorkers start without work": Row(needed(0, policy=ONE_STAYS), want=[Create(0)], policy=ONE_STAYS),
    "workers that start already are not started again": Row(needed(4), [Worker(0, "starting"), Worker(1, "starting")]),
    "a free slot between others is taken": Row(needed(6), [ready(0), ready(2)], [Create(1)]),
    "beside a ready worker, a need that is new waits": Row(
        needed(1, 3, seconds=0.25), [ready(0)], again=SCALE_OUT_SECONDS - 0.25
    ),
    "beside a ready worker, a need that lasts starts more": Row(needed(1, 3, seconds=20.0), [ready(0)], [Create(1)]),
    "beside a starting worker, a new need starts more at once": Row(
        needed(1, 3, seconds=0.25), [Worker(0, "starting")], [Create(1)], again=29.5
    ),
    "a worker without work stays for its idle time": Row(
        needed(1, 0, seconds=20.0), [ready(0, idle_seconds=20.0)], again=10.0
    ),
    "a worker without work is drained after its idle time": Row(
        needed(1, 0, seconds=30.0), [ready(0, idle_seconds=30.0)], [Drain(0)]
    ),
    "a drained worker without work ends": Row(needed(0), [Worker(0, "draining")], [Remove(0)]),
    "a draining worker finishes its work first": Row(needed(0), [Worker(0, "draining", running=1)]),
    "the last workers stay when minWorkers says so": Row(
        needed(0, policy=ONE_STAYS), [ready(0, idle_seconds=99.0), ready(1, idle_seconds=90.0)], [Drain(0)], ONE_STAYS
    ),
    "a peak within the idle time keeps its workers": Row(
        needed(8, 1, seconds=29.0), [ready(slot) for slot in range(4)], again=1.0
    ),
    "after the idle time the workers of a peak go, idle ones first": Row(
        needed(8, 1, seconds=30.0),
        [ready(0), ready(1, running=1), ready(2), ready(3, idle_seconds=5.0)],
        [Drain(3), Drain(2), Drain(0)],
    ),
    "just after a restart the number of workers does not fall": Row(
        needed(0, seconds=10.0), [ready(0, idle_seconds=4.0)], again=20.0
    ),
    "just after a restart a worker goes that says that it was idle": Row(
        needed(0, seconds=10.0), [ready(0, idle_seconds=31.0)], [Drain(0)], again=20.0
    ),
    "an idle worker that is needed stays": Row(needed(1), [ready(0, idle_seconds=100.0)]),
    "a lower maxWorkers drains at once": Row(
        needed(8, seconds=1.0, policy=Policy(max_workers=1)),
        [ready(0), ready(1, running=1)],
        [Drain(0)],
        Policy(max_workers=1, idle_seconds=30.0),
        again=29.0,
    ),
    "a starting worker that nobody needs any more ends without a drain": Row(
        needed(1, 0, seconds=30.0), [Worker(0, "starting")], [Remove(0)]
    ),
    "a failed worker stays for its back-off": Row(needed(1), [Worker(0, "failed", state_seconds=9.0)], again=1.0),
    "a failed worker is replaced after its back-off": Row(
        needed(1), [Worker(0, "failed", state_seconds=10.0)], [Remove(0)]
    ),
    "the next failure waits longer": Row(needed(1), [Worker(0, "failed", state_seconds=10.0, failures=2)], again=30.0),
    "a failed worker that nobody needs goes at once": Row(needed(0), [Worker(0, "failed")], [Remove(0)]),
    "while all workers fail, no more of them start": Row(
        needed(8), [Worker(0, "failed"), Worker(1, "starting")], again=10.0
    ),
    "beside a ready worker a failed one stops no others": Row(
        needed(8), [Worker(0, "failed"), ready(1)], [Create(2), Create(3)], again=10.0
    ),
    "an idle worker stays when the others have failed": Row(
        needed(0, seconds=10.0, policy=ONE_STAYS),
        [ready(0, idle_seconds=31.0), Worker(1, "failed")],
        policy=ONE_STAYS,
        again=10.0,
    ),
    "one outdated worker at a time is drained": Row(
        needed(4), [ready(0, outdated="patch", running=1), ready(1, outdated="patch")], [Drain(1)]
    ),
    "an outdated worker that is busy is drained, and another one takes its place": Row(
        needed(2), [ready(0, outdated="patch", running=1)], [Drain(0), Create(1)]
    ),
    "a drained outdated worker that is needed changes in place": Row(
        needed(4), [ready(0, outdated="patch"), Worker(1, "draining", outdated="patch")], [Patch(1)]
    ),
    "a drained outdated worker that is not needed ends": Row(
        needed(1), [ready(0, outdated="patch"), Worker(1, "draining", outdated="patch")], [Remove(1)]
    ),
    "the next outdated worker waits until the changed one is ready": Row(
        needed(4), [ready(0, outdated="patch"), Worker(1, "starting")]
    ),
    "the next outdated worker follows when the changed one is ready": Row(
        needed(4), [ready(0, outdated="patch"), ready(1)], [Drain(0)]
    ),
    "a change that fails stops the roll, and the others go on": Row(
        needed(4), [ready(0, outdated="patch"), Worker(1, "failed")], again=10.0
    ),
    "outdated workers that take no work change at once": Row(
        needed(6),
        [Worker(0, "failed", outdated="patch"), Worker(1, "starting", outdated="patch"), ready(2, outdated="patch")],
        [Patch(0), Patch(1)],
    ),
    "a worker whose size changed is replaced": Row(
        needed(2), [Worker(0, "draining", outdated="replace")], [Remove(0), Create(1)]
    ),
    "a drained worker that is needed again ends, and another one starts": Row(
        needed(2), [Worker(0, "draining", running=1)], [Create(1)]
    ),
    "workers in slots above a lower maxWorkers count against it": Row(
        needed(8, policy=Policy(max_workers=2)),
        [Worker(2, "draining", running=1), Worker(3, "draining", running=1)],
        policy=Policy(max_workers=2, idle_seconds=30.0),
    ),
    "workers on their way out count against maxWorkers": Row(
        needed(8), [Worker(slot, "draining", running=1) for slot in range(4)]
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@mutant("activator/decision.py", "policy.max_workers - len(plan.workers)", "policy.max_workers")
@mutant("activator/decision.py", "if unseen > 0:", "if unseen > 1e9:")
@mutant("activator/decision.py", "if wait <= 0:", "if wait <= 1e9:")
@mutant("activator/decision.py", "if changing or any(", "if any(")
@mutant("activator/decision.py", "demand.least(now, SCALE_OUT_SECONDS)", "demand.needed, None")
def test_decision(row: Row) -> None:
    decision = decide(row.policy, row.demand, row.workers, NOW)
    assert list(decision.actions) == list(row.want)
    assert decision.look_again == (pytest.approx(row.again) if row.again is not None else None)


def test_a_load_that_moves_below_an_old_peak_does_not_keep_the_peak_alive() -> None:
    demand = Demand(0.0)
    demand.observe(0.0, 4)
    for second in range(1, 40):
        demand.observe(float(second), 1 + second % 2)
    assert demand.most(40.0, 30.0) == (2, None)


def test_the_memory_of_a_demand_does_not_grow_with_time() -> None:
    demand = Demand(0.0)
    for step in range(10_000):
        demand.observe(step / 10, step * 7919 % 5)
        demand.most(step / 10, 300.0)
        demand.least(step / 10, SCALE_OUT_SECONDS)
    assert len(demand._most._values) <= 5
    assert len(demand._least._values) <= 5
