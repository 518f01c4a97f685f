"""How long and from which seed a randomised test runs: briefly and the same in CI, longer and anew in `make soak`."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIXED_SEED = 0


@dataclass(frozen=True)
class Soak:
    """The pair of options `--soak-seed` and `--soak-rounds`; the fixture `soak` hands it to a test."""

    seed: int = FIXED_SEED
    given_rounds: int | None = None

    def rounds(self, default: int) -> int:
        """The number of rounds to run: what the command line says, else the test's own default."""
        return default if self.given_rounds is None else self.given_rounds

    def random(self, *purpose: object) -> random.Random:
        """A generator of its own for each purpose: one test draws the same numbers whatever other tests draw."""
        return random.Random(f"{self.seed} {' '.join(map(str, purpose))}")
