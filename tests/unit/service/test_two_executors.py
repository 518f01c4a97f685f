"""Two live executors of one hand-over, a rival, the sweeper and the reconciler: the real code, every order of calls.

A quick part of the exploration; the whole of it is in tests/faults.
"""

from __future__ import annotations

import pytest

from gpu_runtime.service.handover import HandOver
from unit.service.exploration.broken import BROKEN
from unit.service.exploration.scene import Violation
from unit.service.exploration.schedules import every_schedule, random_schedule

PROCESSES = [0, 1, 2, 3, 5]
SEEDS = 5_000


@pytest.mark.parametrize("picks", [0b0, 0b10, 0b110])
def test_every_schedule_of_two_segments_holds(picks: int) -> None:
    assert every_schedule(PROCESSES, 2, picks) > 400


def test_random_schedules_hold() -> None:
    for seed in range(1_000):
        random_schedule(seed)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_taking_a_rule_out_is_noticed(broken: type[HandOver]) -> None:
    with pytest.raises(Violation):
        _play_many(broken)


def _play_many(handover: type[HandOver]) -> None:
    for seed in range(SEEDS):
        random_schedule(seed, handover)
