"""Two replicas seed 50 batches of 20, with consumption, restarts and lost answers in between: 100 runs in memory."""

from __future__ import annotations

import sys
from multiprocessing import get_context

import pytest

from unit.service.exploration.many_batches import BATCHES, SIZE, run

RUNS = 100


def test_fifty_batches_on_two_replicas_make_every_number_once_in_a_hundred_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with get_context("spawn").Pool(2) as workers:
        counts = workers.map(run, range(RUNS), chunksize=5)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{RUNS} runs of {BATCHES} batches of {SIZE}: {sum(each.consumed for each in counts)} units consumed "
            f"meanwhile, {sum(each.kills for each in counts)} processes killed, {sum(each.lost for each in counts)} "
            f"answers lost, {sum(each.duplicates for each in counts)} units made too late and removed\n"
        )
    assert all(each.consumed and each.kills and each.lost for each in counts)
    assert sum(each.duplicates for each in counts)
