"""Two live executors of one hand-over, a rival, the sweeper and the reconciler: the real code, every order of calls.

A quick part of the exploration; the whole of it is in tests/faults.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.controllers.gpuunit.admitter import Admitter
from gpu_runtime.service.units.handover import HandOver
from unit.service.exploration.broken import BROKEN, BROKEN_CONTROLLERS
from unit.service.exploration.scene import Scene, Violation
from unit.service.exploration.schedules import Exploration, Play, random_schedule

PROCESSES = [0, 1, 2, 3, 5, 7]
SEEDS = 5_000


@pytest.mark.parametrize("second", [(), (1,), (2,)])
def test_every_schedule_of_two_segments_holds(second: tuple[int, ...]) -> None:
    assert len(Exploration(PROCESSES, second).play(2).states) > 200


def test_independent_calls_lead_to_the_same_state_in_either_order_and_others_do_not() -> None:
    def after(*order: int, twins: bool = False) -> int:
        play = Play(Scene(lambda _: 0, second=(2,)), twins=twins)
        for number in order:
            play.step(number)
        return play.state()

    assert after(0, 0, 2, 2) == after(2, 2, 0, 0) == after(0, 2, 0, 2)
    assert after(0, 0, 1, 1) != after(1, 1, 0, 0)  # both create one record: one of them is told that it is there
    assert after(0, 0, 1, 1, twins=True) == after(1, 1, 0, 0, twins=True)


def test_random_schedules_hold() -> None:
    for seed in range(1_000):
        random_schedule(seed)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_taking_a_rule_out_is_noticed(broken: type[HandOver]) -> None:
    with pytest.raises(Violation):
        _play_many(handover=broken)


@pytest.mark.parametrize("broken", BROKEN_CONTROLLERS, ids=lambda each: each.__name__)
def test_a_controller_that_does_not_wait_is_noticed(broken: type[Admitter]) -> None:
    with pytest.raises(Violation, match="still holds the GPU"):
        _play_many(controller=broken)


def _play_many(**parts: Any) -> None:
    for seed in range(SEEDS):
        random_schedule(seed, **parts)
