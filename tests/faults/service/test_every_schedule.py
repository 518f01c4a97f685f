"""The hand-over under every schedule up to a bound, and under many random ones beyond it."""

from __future__ import annotations

import sys
from multiprocessing import get_context

import pytest

from unit.service.exploration.schedules import explore, random_schedule

PROCESSES = [0, 1, 2, 3, 5, 7]  # both executors of one operation, the rival, a sweeper, a reconciler, the end of pods
SEGMENTS = 4
RANDOM = 20_000


def test_every_schedule_of_four_segments_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """With all processes; and once more where the rival begins with another stock unit than the two executors."""
    plays = [(PROCESSES, SEGMENTS, ()), ([0, 1, 2, 3], SEGMENTS, (2,))]
    with get_context("spawn").Pool(2) as workers:
        found = workers.starmap(explore, plays, chunksize=1)
    with capsys.disabled():
        for (processes, segments, second), (states, ends) in zip(plays, found, strict=True):
            sys.stdout.write(f"\n{states} states, {ends} ends: {segments} segments of {processes}, {second} apart")


def test_twenty_thousand_random_schedules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with get_context("spawn").Pool(2) as workers:
        steps = workers.map(random_schedule, range(RANDOM), chunksize=500)
    with capsys.disabled():
        sys.stdout.write(f"\n{RANDOM} random schedules hold, {max(steps)} calls in the longest\n")
