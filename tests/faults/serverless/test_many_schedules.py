"""Many more of the schedules that `tests/unit/serverless` plays a few of."""

from __future__ import annotations

import sys

import pytest

from equipment.soak import Soak
from unit.serverless.exploration.scene import play_scene

ROUNDS = 60


def test_random_schedules_of_invocations_hold(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    rounds, first = soak.rounds(ROUNDS), soak.seed * 1_000_000
    count = sum(play_scene(seed).executions.total() for seed in range(first, first + rounds))
    with capsys.disabled():
        sys.stdout.write(f"\n{rounds} schedules from seed {first} hold, {count} calls of frameworks\n")
