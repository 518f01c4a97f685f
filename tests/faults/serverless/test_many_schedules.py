"""Many more of the schedules that `tests/unit/serverless` plays a few of."""

from __future__ import annotations

import sys
from multiprocessing import get_context

import pytest

from equipment.soak import Soak
from unit.serverless.exploration.scene import play_scene

ROUNDS = 60


def executions(seed: int) -> int:
    return play_scene(seed).executions.total()


def test_random_schedules_of_invocations_hold(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    rounds, first = soak.rounds(ROUNDS), soak.seed * 1_000_000
    with get_context("spawn").Pool(2) as workers:
        counts = workers.map(executions, range(first, first + rounds), chunksize=20)
    with capsys.disabled():
        sys.stdout.write(f"\n{rounds} schedules from seed {first} hold, {sum(counts)} calls of frameworks\n")
