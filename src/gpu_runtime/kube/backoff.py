"""How long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Exponential:
    """`first`, doubled with each failure, never above `most` seconds."""

    first: float
    most: float

    def after(self, failures: int) -> float:
        # Past 2**60 a float would overflow long after the cap is reached.
        return min(self.first * 2.0 ** min(failures, 60), self.most)


@dataclass
class JitteredBackoff:
    """Grows with each failure and spreads clients that failed together over the whole interval."""

    growth: Exponential = field(default_factory=lambda: Exponential(0.8, 30.0))
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next(self) -> float:
        longest = self.growth.after(self.failures)
        self.failures += 1
        return self.rng.uniform(0.0, longest)

    def reset(self) -> None:
        self.failures = 0
