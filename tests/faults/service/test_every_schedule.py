"""The hand-over under every schedule up to a bound, and under many random ones beyond it."""

from __future__ import annotations

import sys
from multiprocessing import get_context

import pytest

from unit.service.exploration.schedules import every_schedule, random_schedule

PROCESSES = [0, 1, 2, 3, 5]  # both executors of one operation, the rival, a sweeper, a reconciler
SEGMENTS = 3
RANDOM = 20_000


def test_every_schedule_of_three_segments_holds(capsys: pytest.CaptureFixture[str]) -> None:
    played = every_schedule(PROCESSES, SEGMENTS, picks=0) + every_schedule([0, 1, 3], SEGMENTS, picks=0b10)
    with capsys.disabled():
        sys.stdout.write(f"\n{played} schedules of at most {SEGMENTS} segments hold\n")


def test_twenty_thousand_random_schedules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with get_context("spawn").Pool(2) as workers:
        steps = workers.map(random_schedule, range(RANDOM), chunksize=500)
    with capsys.disabled():
        sys.stdout.write(f"\n{RANDOM} random schedules hold, {max(steps)} calls in the longest\n")
