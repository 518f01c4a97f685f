"""How many workers the queue of one function needed over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import gt, lt
from typing import NamedTuple


class Value(NamedTuple):
    """A number of workers, and when it was last the current one."""

    number: int
    until: float


@dataclass
class Extreme:
    """The largest value of the last seconds; the smallest, if `beats` is "less than".

    It keeps only values that no later value beats, so it never holds more entries than there are different values.
    """

    beats: Callable[[int, int], bool]
    _values: deque[Value] = field(default_factory=deque)  # the last one is the current one

    def add(self, now: float, number: int) -> None:
        if self._values:
            self._values.append(Value(self._values.pop().number, now))
        while self._values and not self.beats(self._values[-1].number, number):
            self._values.pop()
        self._values.append(Value(number, now))

    def over(self, now: float, seconds: float) -> tuple[int, float | None]:
        """The extreme of the last `seconds`, and after how many seconds another value takes its place.

        Older values are forgotten: ask for the same number of seconds each time.
        """
        while len(self._values) > 1 and self._values[0].until + seconds <= now:
            self._values.popleft()
        first = self._values[0]
        return first.number, first.until + seconds - now if len(self._values) > 1 else None


@dataclass
class Demand:
    """The number of workers that was needed, observed since `since`. It has at least one observation when it is asked.

    After a restart of the process the observation begins again.
    """

    since: float
    needed: int = 0
    """The last observation."""
    _most: Extreme = field(default_factory=lambda: Extreme(gt))
    _least: Extreme = field(default_factory=lambda: Extreme(lt))

    def observe(self, now: float, needed: int) -> None:
        self.needed = needed
        self._most.add(now, needed)
        self._least.add(now, needed)

    def most(self, now: float, seconds: float) -> tuple[int, float | None]:
        """The highest number of the last `seconds`, and after how many seconds it falls if nothing changes."""
        return self._most.over(now, seconds)

    def least(self, now: float, seconds: float) -> tuple[int, float | None]:
        """The lowest number of the last `seconds`, and after how many seconds it rises if nothing changes."""
        return self._least.over(now, seconds)
