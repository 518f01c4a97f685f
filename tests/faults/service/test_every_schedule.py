"""The hand-over under every schedule up to a bound, and under many random ones beyond it."""

from __future__ import annotations

import sys
from multiprocessing import get_context

import pytest
import structlog

from unit.service.exploration.schedules import Exploration, random_schedule

PROCESSES = [0, 1, 2, 3, 5, 7]  # both executors of one operation, the rival, a sweeper, a reconciler, the end of pods
SEGMENTS = 4
RANDOM = 20_000


def explore(second: tuple[int, ...], processes: list[int], segments: int) -> tuple[int, int]:
    """How many states there are, and how many different ends if all stop in one of them."""
    structlog.configure(processors=[_nothing])
    found = Exploration(processes, second).play(segments)
    return len(found.states), len(found.ends)


def _nothing(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def test_every_schedule_of_four_segments_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them with all processes; of five segments those of the executors and the sweeper."""
    plays = [((), PROCESSES, SEGMENTS), ((2,), [0, 1, 2, 3], SEGMENTS), ((), [0, 1, 3], SEGMENTS + 1)]
    with get_context("spawn").Pool(2) as workers:
        found = workers.starmap(explore, plays, chunksize=1)
    with capsys.disabled():
        for (second, processes, segments), (states, ends) in zip(plays, found, strict=True):
            sys.stdout.write(f"\n{states} states, {ends} ends: {segments} segments of {processes}, {second} apart")


def test_twenty_thousand_random_schedules_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with get_context("spawn").Pool(2) as workers:
        steps = workers.map(random_schedule, range(RANDOM), chunksize=500)
    with capsys.disabled():
        sys.stdout.write(f"\n{RANDOM} random schedules hold, {max(steps)} calls in the longest\n")
