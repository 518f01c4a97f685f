"""`make soak` tries new examples; every other run tries the same ones."""

from __future__ import annotations

import hypothesis
import pytest

from equipment.soak import Soak


def test_a_run_without_a_seed_is_the_same_each_time(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--soak-seed") is None:
        assert hypothesis.settings().derandomize
    assert Soak().random("a").random() == Soak().random("a").random() != Soak().random("b").random()
    assert Soak().rounds(3) == 3


def test_another_seed_brings_other_examples_and_the_same_one_the_same() -> None:
    assert not hypothesis.settings.get_profile("soak").derandomize
    assert hypothesis.settings.get_profile("soak").database is None
    one, other = Soak(given_seed=1, given_rounds=9), Soak(given_seed=2)
    assert one.random("a").random() == Soak(given_seed=1).random("a").random() != other.random("a").random()
    assert one.rounds(3) == 9
