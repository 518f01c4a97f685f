"""How long and from which seed a randomised test runs: briefly and the same in CI, longer and anew in `make soak`.

A test asks for the fixture `soak`; `make soak` runs those tests and all of hypothesis (`--soak-only`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import hypothesis
import pytest

FIXED_SEED = 0
EXAMPLES = 1000
"""Of each property in one round of `make soak`."""

# No deadline for an example, because its time depends on the machine; the same examples in every run.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# Each seed gives new examples. A failed example is repeated by its seed, not from a database.
hypothesis.settings.register_profile(
    "soak", hypothesis.settings.get_profile("suite"), derandomize=False, database=None, max_examples=EXAMPLES
)


@dataclass(frozen=True)
class Soak:
    """The pair of options `--soak-seed` and `--soak-rounds`; the fixture `soak` hands it to a test."""

    given_seed: int | None = None
    given_rounds: int | None = None

    @property
    def seed(self) -> int:
        return FIXED_SEED if self.given_seed is None else self.given_seed

    def rounds(self, default: int) -> int:
        """The number of rounds to run: what the command line says, else the test's own default."""
        return default if self.given_rounds is None else self.given_rounds

    def random(self, *purpose: object) -> random.Random:
        """A generator of its own for each purpose: one test draws the same numbers whatever other tests draw."""
        return random.Random(f"{self.seed} {' '.join(map(str, purpose))}")


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seed", type=int, help="another seed for randomised tests, and new examples of hypothesis")
    parser.addoption("--soak-rounds", type=int, help="how many rounds they run, instead of each test's own number")
    parser.addoption("--soak-only", action="store_true", help="only randomised tests")


def options(config: pytest.Config) -> Soak:
    return Soak(config.getoption("--soak-seed"), config.getoption("--soak-rounds"))


def configure(config: pytest.Config) -> None:
    """Before any test is imported: a test's own settings inherit from the profile."""
    given = options(config)
    hypothesis.settings.load_profile("suite" if given.given_seed is None else "soak")
    if given.given_seed is not None:
        config.option.hypothesis_seed = str(given.seed)


def only_randomised(items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if isinstance(item, pytest.Function) and _is_randomised(item)]


def _is_randomised(item: pytest.Function) -> bool:
    return "soak" in item.fixturenames or hypothesis.is_hypothesis_test(item.obj)
