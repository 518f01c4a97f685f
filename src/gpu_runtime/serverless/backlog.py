"""The unfinished invocations of all functions, in memory: followed at the broker, and rebuilt from it at each start."""

from __future__ import annotations

import asyncio
import heapq
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import Struct

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.following import Followed, Follower
from gpu_runtime.serverless.messages import DEADLINE
from gpu_runtime.serverless.subjects import Function, Run

LONGEST_SECONDS = 86_400.0
"""The deadline of an invocation that carries none that can be read."""
EARLY_END_SECONDS = 30.0
"""How long to remember an end whose invocation was not seen: the two streams are followed independently."""
SPARE_DEADLINES = 1000


class Unfinished(Struct, frozen=True, gc=False):
    """An accepted run without an end."""

    sequence: int
    deadline: float
    accepted: float
    """Both in seconds since the epoch. Accepted: when the broker stored it."""
    is_urgent: bool


@dataclass(slots=True)
class _Queue:
    """The unfinished runs of one function, and their sequences in order for each priority."""

    function: Function
    runs: dict[Run, Unfinished] = field(default_factory=dict)
    urgent: list[int] = field(default_factory=list)
    normal: list[int] = field(default_factory=list)

    def line(self, run: Unfinished) -> list[int]:
        return self.urgent if run.is_urgent else self.normal


class Backlog:
    """Run `run` in the background. What it says is complete while `problem` is empty."""

    def __init__(self, broker: Broker, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._queues: dict[Function, _Queue] = {}
        self._early: dict[Run, None] = {}
        self._early_order: deque[tuple[float, Run]] = deque()
        self._deadlines: list[tuple[float, int, Run]] = []
        self._ended_deadlines = 0  # how many of them, about, belong to runs that have ended
        self._changed: list[Callable[[Function], None]] = []
        self._waiting: dict[Run, set[asyncio.Event]] = {}
        self._accepted = Follower(broker, INVOCATIONS, self._on_accepted, self._on_reset, self._forget_early)
        self._ended = Follower(broker, RESULTS, self._on_ended)
        self._loaded = False

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._accepted.run())
            group.create_task(self._ended.run())

    @property
    def problem(self) -> str:
        """Why the backlog may be incomplete; empty while it is complete."""
        return self._accepted.problem or self._ended.problem

    @property
    def loaded(self) -> bool:
        """Whether everything has been read at least once. It stays True while the connection is away."""
        self._loaded = self._loaded or not self.problem
        return self._loaded

    def subscribe(self, changed: Callable[[Function], None]) -> None:
        """Calls `changed` for each invocation that is accepted or ends."""
        self._changed.append(changed)

    def load(self, function: Function) -> int:
        """How many runs have been accepted and have not ended."""
        queue = self._queues.get(function)
        return len(queue.runs) if queue is not None else 0

    def functions(self) -> list[Function]:
        """The functions with unfinished runs."""
        return list(self._queues)

    def runs(self, function: Function) -> list[Run]:
        """The unfinished runs, oldest first."""
        queue = self._queues.get(function)
        return list(queue.runs) if queue is not None else []

    def find(self, run: Run) -> Unfinished | None:
        queue = self._queues.get(run.function)
        return queue.runs.get(run) if queue is not None else None

    def oldest(self, function: Function) -> Unfinished | None:
        queue = self._queues.get(function)
        return next(iter(queue.runs.values()), None) if queue is not None else None

    def first_unfinished(self, function: Function) -> int:
        """The sequence of the oldest unfinished run, or the next one in the stream. Valid while `problem` is empty."""
        oldest = self.oldest(function)
        return oldest.sequence if oldest is not None else self._accepted.last + 1

    def ahead(self, run: Run) -> int | None:
        """How many unfinished runs of the function come before this one, running ones included; None if it is not
        unfinished."""
        queue, found = self._queues.get(run.function), self.find(run)
        if queue is None or found is None:
            return None
        before = 0 if found.is_urgent else len(queue.urgent)
        return before + bisect_left(queue.line(found), found.sequence)

    @contextmanager
    def ending(self, run: Run) -> Iterator[asyncio.Event]:
        """An event that is set when the run ends. Look for its end after this: it may have ended before."""
        event = asyncio.Event()
        self._waiting.setdefault(run, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiting[run]
            waiting.discard(event)
            if not waiting:
                del self._waiting[run]

    def overdue(self, now: float) -> list[Run]:
        """The runs whose deadline is over and that have not ended. Each is returned once; `again` adds it again."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, sequence, run = heapq.heappop(self._deadlines)
            if self._is_current(run, sequence):
                found.append(run)
        return found

    def next_deadline(self) -> float | None:
        """The earliest deadline, in seconds since the epoch."""
        while self._deadlines and not self._is_current(self._deadlines[0][2], self._deadlines[0][1]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def again(self, run: Run, at: float) -> None:
        """Lets `overdue` return the run once more, at this time."""
        if (found := self.find(run)) is not None:
            heapq.heappush(self._deadlines, (at, found.sequence, run))

    def end(self, run: Run) -> None:
        """Notes an end that was learnt otherwise, such as by a refused publish."""
        self._remove(run)

    def _on_accepted(self, message: Followed) -> None:
        try:
            run, priority = subjects.parse_accepted(message.subject)
        except ValueError:
            return
        if run in self._early:
            del self._early[run]
            return
        entry = Unfinished(message.sequence, _deadline(message), message.stored_at, priority == "high")
        queue = self._queues.get(run.function)
        if queue is None:
            queue = self._queues[run.function] = _Queue(run.function)
        run = run._replace(function=queue.function)  # all runs share one Function, which saves memory
        queue.runs[run] = entry
        queue.line(entry).append(entry.sequence)
        heapq.heappush(self._deadlines, (entry.deadline, entry.sequence, run))
        self._tell(run.function)

    def _on_ended(self, message: Followed) -> None:
        try:
            run = subjects.parse_ended(message.subject)
        except ValueError:
            return
        if not self._remove(run):
            self._early[run] = None
            self._early_order.append((self._clock.monotonic(), run))
        for event in self._waiting.get(run, ()):
            event.set()

    def _remove(self, run: Run) -> bool:
        queue = self._queues.get(run.function)
        entry = queue.runs.pop(run, None) if queue is not None else None
        if queue is None or entry is None:
            return False
        line = queue.line(entry)
        del line[bisect_left(line, entry.sequence)]
        if not queue.runs:
            del self._queues[run.function]
        self._ended_deadlines += 1
        if self._ended_deadlines > len(self._deadlines) // 2 + SPARE_DEADLINES:
            self._drop_ended_deadlines()
        self._tell(run.function)
        return True

    def _drop_ended_deadlines(self) -> None:
        """Deadlines of ended runs stay in the heap at first, because only its top can be removed cheaply."""
        self._deadlines = [each for each in self._deadlines if self._is_current(each[2], each[1])]
        heapq.heapify(self._deadlines)
        self._ended_deadlines = 0

    def _is_current(self, run: Run, sequence: int) -> bool:
        """Whether the run is unfinished and still the message that was queued under this sequence."""
        found = self.find(run)
        return found is not None and found.sequence == sequence

    def _forget_early(self) -> None:
        """No invocation is missing now, so an older end belongs to an invocation that was purged."""
        limit = self._clock.monotonic() - EARLY_END_SECONDS
        while self._early_order and self._early_order[0][0] <= limit:
            self._early.pop(self._early_order.popleft()[1], None)

    def _on_reset(self) -> None:
        functions = self.functions()
        self._queues.clear()
        self._deadlines.clear()
        for function in functions:
            self._tell(function)

    def _tell(self, function: Function) -> None:
        for changed in self._changed:
            changed(function)


def _deadline(message: Followed) -> float:
    try:
        deadline = int(message.headers.get(DEADLINE, "")) / 1000
    except ValueError:
        deadline = math.inf
    return deadline if math.isfinite(deadline) else message.stored_at + LONGEST_SECONDS
