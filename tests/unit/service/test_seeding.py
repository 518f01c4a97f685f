"""Seeding in memory, under random schedules of two executors, sweeper, controller, consumers and an operator."""

from __future__ import annotations

from random import Random

import pytest
from structlog.testing import capture_logs

from unit.service.exploration.broken_seeding import BROKEN
from unit.service.exploration.memory import Process
from unit.service.exploration.scene import Violation
from unit.service.exploration.seeding import RULES, Rules, SeedingScene

SEEDS = 1_500


def play(seed: int, rules: Rules = RULES, *, size: int = 2) -> SeedingScene:
    """One random schedule in which each process may stop for ever anywhere, and then the end.

    In some of them a quota refuses units, in some of them answers are lost.
    """
    rng = Random(seed)
    scene = SeedingScene(rng, size=size, rules=rules)
    alive = [
        Process("A", scene.executor("b0")),
        Process("B", scene.executor("b0")),
        Process("S1", scene.sweeper),
        Process("S2", scene.sweeper),
        *(Process(f"C{number}", scene.consumer) for number in range(3)),
        *(Process(f"R{number}", scene.controller) for number in range(6)),
        Process("O", scene.operator),
    ]
    if seed % 3 == 0:
        scene.memory.quota = rng.randint(0, size)
    if seed % 2 == 0:
        scene.memory.loses = lambda: rng.random() < 0.05
    eagerness = rng.choice((1, 1, 2, 4, 8))
    while alive:
        process = rng.choice(alive)
        for _ in range(rng.randint(1, eagerness)):
            scene.step(process)
            if process.done:
                break
        if process.done or rng.random() < 0.015:
            alive.remove(process)
    scene.end()
    return scene


def test_every_number_of_a_batch_is_made_once_under_random_schedules() -> None:
    with capture_logs():
        consumed = sum(len(play(seed).consumed) for seed in range(SEEDS))
    assert consumed > SEEDS // 4


@pytest.mark.parametrize("rules", BROKEN.values(), ids=BROKEN)
def test_taking_a_rule_out_of_seeding_is_noticed(rules: Rules) -> None:
    with capture_logs(), pytest.raises(Violation):
        play_many(rules)


def play_many(rules: Rules) -> None:
    for seed in range(3 * SEEDS):
        play(seed, rules)
