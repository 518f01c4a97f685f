"""When a fault happens: to which of the calls that it is about."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from equipment.fault_proxy.call import Call
from equipment.fault_proxy.matching import Match


@dataclass
class Rule:
    """Counts the calls that match, from when it was made, and says which of them are hit.

    nth=3: the third only; nth=3, times=2: the third and the fourth; times=2: the first two; neither: all of them.
    per_object counts each object on its own; chance hits that share of them, the same ones for the same seed.
    """

    match: Match
    nth: int | None = None
    times: int | None = None
    per_object: bool = False
    chance: float = 1.0
    seed: int = 0
    _seen: Counter[object] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.nth is not None and self.times is None:
            self.times = 1
        self._random = Random(self.seed)

    def hits(self, call: Call) -> bool:
        """Counts the call, and says whether it is one that the fault happens to."""
        if not self.match(call):
            return False
        if self.chance < 1 and self._random.random() >= self.chance:
            return False
        counter = call.object if self.per_object else None
        self._seen[counter] += 1
        first = self.nth or 1
        past = self._seen[counter] - first
        return past >= 0 and (self.times is None or past < self.times)
