"""The life of invocations under crashes, stalls and lost messages: the real code of all processes, in virtual time."""

from __future__ import annotations

import pytest

from unit.serverless.exploration.broken import RULES
from unit.serverless.exploration.judge import Violation
from unit.serverless.exploration.scene import play_scene

SEEDS = 12
"""`tests/faults/serverless` plays many more."""
TRIES = 200
"""At most: about one life in ten needs the rule that is needed least, and the ids in a life differ from run to run."""
LOST = {"confirm_lost": 0.1}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_accepted_invocation_reaches_exactly_one_end(seed: int) -> None:
    judge = play_scene(seed)
    assert judge.promised <= judge.ends.keys()


@pytest.mark.parametrize("rule", RULES)
def test_taking_a_rule_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with pytest.raises(Violation):
        play_some(LOST.get(rule))


def play_some(lost: float | None) -> None:
    for seed in range(TRIES):
        play_scene(seed, lost)
