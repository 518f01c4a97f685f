"""What holds for every load: the activator's decision against simulated workers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scaling
from gpu_runtime.activator.decision import Create, Decision, Drain, Policy, Remove, decide
from gpu_runtime.activator.demand import Demand
from scaling import CURVES, POLICY, STEP, Fleet, simulate

policies = st.builds(
    lambda concurrency, least, more, idle: Policy(concurrency, least, least + more, idle),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from([0.0, 5.0, 30.0]),
)
moments = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from([0.25, 1.0, 7.0, 40.0]), st.integers(0, 2**16)), max_size=40
)
STEADY_SECONDS = 900.0


class Play:
    """One function with simulated workers. Loads come from the test; workers finish everything at once."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.fleet, self.demand, self.now = policy, Fleet(start_seconds=3.0), Demand(0.0), 0.0

    def step(self, load: int, seconds: float, *, fate: int = 0) -> Decision:
        """Time passes and the activator decides. The bits of `fate` say which workers fail."""
        self.now += seconds
        self.fleet.advance(self.now)
        for slot, worker in self.fleet.workers.items():
            if fate >> (2 * slot) & 3 == 3 and worker.state in ("starting", "ready"):
                worker.state, worker.since = "failed", self.now
        self.demand.observe(self.now, self.policy.needed(load))
        before = self.fleet.seen(self.now)
        decision = decide(self.policy, self.demand, before, self.now)
        self._check(decision)
        self.fleet.apply(decision.actions, self.now)
        return decision

    def _check(self, decision: Decision) -> None:
        seen = {worker.slot: worker for worker in self.fleet.seen(self.now)}
        slots = [action.slot for action in decision.actions]
        assert len(slots) == len(set(slots)), "two actions for one worker"
        created = [action for action in decision.actions if isinstance(action, Create)]
        assert len(seen) + len(created) <= self.policy.max_workers or not created, "more than maxWorkers"
        assert all(action.slot < self.policy.max_workers for action in created)
        working = [worker for worker in seen.values() if worker.state in ("starting", "ready")]
        ending = [a for a in decision.actions if isinstance(a, Remove | Drain) and seen[a.slot] in working]
        left = len(working) - len(ending)
        assert left >= min(self.policy.min_workers, len(working)), "fewer than minWorkers"
        assert decision.look_again is None or decision.look_again > 0

    def settle(self, load: int) -> None:
        for _ in range(int(STEADY_SECONDS / 5)):
            self.step(load, 5.0)

    @property
    def count(self) -> int:
        return len(self.fleet.workers)

    @property
    def ready(self) -> int:
        return sum(worker.state == "ready" for worker in self.fleet.workers.values())


@given(policies, moments)
@settings(max_examples=100, deadline=None)
def test_the_number_of_workers_stays_within_its_limits(policy: Policy, moments: list[tuple[int, float, int]]) -> None:
    play = Play(policy)
    for load, seconds, fate in moments:
        play.step(load, seconds, fate=fate)
        assert play.count <= policy.max_workers


@given(policies, moments)
@settings(max_examples=30, deadline=None)
def test_without_load_the_number_falls_to_the_minimum(policy: Policy, moments: list[tuple[int, float, int]]) -> None:
    play = Play(policy)
    for load, seconds, fate in moments:
        play.step(load, seconds, fate=fate)
    play.settle(0)
    assert play.count == policy.min_workers


@given(policies, moments, st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_a_steady_load_gets_its_workers_and_then_nothing_moves(
    policy: Policy, moments: list[tuple[int, float, int]], load: int
) -> None:
    play = Play(policy)
    for earlier, seconds, fate in moments:
        play.step(earlier, seconds, fate=fate)
    play.settle(load)
    assert play.ready == policy.needed(load)
    moved = [action for _ in range(50) for action in play.step(load, 5.0).actions]
    assert moved == []


@given(policies, st.lists(st.integers(0, 12), min_size=2, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_load_that_swings_faster_than_the_idle_time_moves_nothing(policy: Policy, loads: list[int]) -> None:
    """Each swing comes back within the idle time."""
    policy = replace(policy, idle_seconds=30.0)
    play = Play(policy)
    for turn in range(100):
        play.step(loads[turn % len(loads)], 2.0)
    workers = play.fleet.started, play.fleet.ended
    for turn in range(200):
        play.step(loads[turn % len(loads)], 2.0)
    assert (play.fleet.started, play.fleet.ended) == workers


@given(policies, moments, st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_with_look_again_alone_the_same_end_is_reached(
    policy: Policy, moments: list[tuple[int, float, int]], load: int
) -> None:
    """The activator decides again only when something changes, or when the last decision asked for it."""
    play = Play(policy)
    for earlier, seconds, fate in moments:
        play.step(earlier, seconds, fate=fate)
    for target in (load, 0):
        states: list[object] = []
        look_at = play.now
        for _ in range(1400):
            play.now += 0.5
            play.fleet.advance(play.now)
            found: list[object] = [(worker.slot, worker.state) for worker in play.fleet.seen(play.now)]
            if found == states and play.now < look_at:
                continue
            decision = play.step(target, 0.0)
            look_at = play.now + decision.look_again if decision.look_again is not None else math.inf
            states = found
        assert play.count == policy.needed(target)


@pytest.mark.parametrize("name", CURVES)
def test_every_curve_is_served(name: str) -> None:
    outcome = simulate(CURVES[name])
    expected = sum(CURVES[name](step * STEP) * STEP for step in range(1200))
    assert len(outcome.waits) >= expected * 0.95 - 1
    assert max(sample.workers for sample in outcome.samples) <= POLICY.max_workers


def test_a_steady_load_is_met_by_a_steady_number_of_workers() -> None:
    """More of them start for the queue that builds up before the first is ready; those end once."""
    outcome = simulate(CURVES["steady: 2 a second"])
    assert outcome.started - outcome.ended == POLICY.needed(2 * 2)
    assert len({sample.workers for sample in outcome.samples[-600:]}) == 1


def test_calls_that_come_within_the_idle_time_keep_one_worker() -> None:
    assert simulate(CURVES["a call every 20 s"]).started == 1


def test_a_burst_goes_back_to_zero() -> None:
    assert simulate(CURVES["one burst of 100 calls"]).samples[-1].workers == 0


def test_the_charts_in_the_docs_are_those_of_the_code() -> None:
    drawn = Path(__file__).parents[3] / "docs" / "scaling.svg"
    assert drawn.read_text() == scaling.svg(), "draw them again: python hack/scaling.py --svg docs/scaling.svg"
