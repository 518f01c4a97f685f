"""The life of invocations under crashes, stalls and lost messages: the real code of all processes, in virtual time."""

from __future__ import annotations

import pytest

from unit.serverless.exploration.broken import RULES
from unit.serverless.exploration.judge import Violation
from unit.serverless.exploration.scene import play_scene

SEEDS = 12
"""`tests/faults/serverless` plays many more."""
TRIES = 20
FIRST_SEED = {"count_attempts": 16, "confirm_lost": 0}
"""Where a rule begins to be needed. A change of the code may need others: they are only there to save time."""
LOST = {"confirm_lost": 0.1}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_accepted_invocation_reaches_exactly_one_end(seed: int) -> None:
    judge = play_scene(seed)
    assert judge.promised <= judge.ends.keys()


@pytest.mark.parametrize("rule", RULES)
def test_taking_a_rule_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with pytest.raises(Violation):
        play_some(FIRST_SEED.get(rule, 0), LOST.get(rule))


def play_some(first: int, lost: float | None) -> None:
    for seed in range(first, first + TRIES):
        play_scene(seed, lost)
