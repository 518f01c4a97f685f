"""Keys that await work: each at most once, never to two workers at a time, failures less and less often."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock

RETRIES = Exponential(first=0.005, most=300.0)
PATIENCE = 4  # of so many keys taken, one is an urgent one and one is not urgent at all
FIRST = 2  # the highest urgency


class Queue:
    """A set of keys, handed out in order of arrival; urgent keys come before the others.

    Urgency is 0, 1 (or True) or FIRST. FIRST is for keys whose work is short and whose result somebody waits for. Of
    four keys handed out, one is of urgency 1 and one of urgency 0, if there are such keys: no key waits for ever.

    A key added while it waits is not added again. A key added while it is being worked on waits for `done` and is then
    worked on once more.
    """

    def __init__(self, *, retries: Exponential = RETRIES, clock: Clock = SYSTEM_CLOCK) -> None:
        self._retries = retries
        self._clock = clock
        self._first: OrderedDict[Key, None] = OrderedDict()
        self._urgent: OrderedDict[Key, None] = OrderedDict()
        self._others: OrderedDict[Key, None] = OrderedDict()
        self._busy: set[Key] = set()
        self._again: dict[Key, int] = {}  # busy and to be worked on once more: how urgent that is
        self._taken = 0
        self._due: dict[Key, float] = {}  # the earliest time of each delayed key
        self._heap: list[tuple[float, Key]] = []
        self._failures: dict[Key, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._first) + len(self._urgent) + len(self._others)

    def add(self, key: Key, *, urgent: int = 0) -> None:
        """`key` needs work now. Urgency never falls while the key waits."""
        if self._closed:
            return
        if key in self._busy:
            self._again[key] = max(urgent, self._again.get(key, 0))
            return
        if urgent >= FIRST:
            self._urgent.pop(key, None)
            self._others.pop(key, None)
            self._first[key] = None
        elif urgent and key not in self._first:
            self._others.pop(key, None)
            self._urgent[key] = None
        elif key not in self._urgent and key not in self._first:
            self._others[key] = None
        self._wake()

    def add_after(self, key: Key, delay: float) -> None:
        """`key` needs work in `delay` seconds; of several such times the earliest counts."""
        if delay <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + delay
        if self._closed or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        if self._waiters:
            self._arm()

    def retry(self, key: Key, *, at_least: float = 0.0) -> None:
        """`key` failed: again later, twice as late as the last time, but not before `at_least` seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, max(self._retries.after(failures), at_least))

    def forget(self, key: Key) -> None:
        """`key` succeeded: its next failure is its first."""
        self._failures.pop(key, None)

    def try_get(self) -> Key | None:
        """The next key, now busy; None when there is none at the moment."""
        self._promote()
        if not len(self):
            return None
        self._taken += 1
        key, _ = self._next().popitem(last=False)
        self._busy.add(key)
        return key

    def _next(self) -> OrderedDict[Key, None]:
        if self._others and self._taken % PATIENCE == 0:
            return self._others
        if self._urgent and self._taken % PATIENCE == 2:
            return self._urgent
        return self._first or self._urgent or self._others

    async def get(self) -> Key | None:
        """The next key, when there is one; None once the queue is closed."""
        while not self._closed:
            if (key := self.try_get()) is not None:
                return key
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._arm()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                elif len(self):
                    self._wake()  # this wake-up was for a key that nobody has taken: pass it on
                raise
        return None

    def done(self, key: Key) -> None:
        """The work on `key` has ended, well or not."""
        self._busy.discard(key)
        if key in self._again:
            self.add(key, urgent=self._again.pop(key))

    def pending(self) -> set[Key]:
        """Every key that is waiting, delayed or to be worked on once more."""
        return {*self._first, *self._urgent, *self._others, *self._again, *self._due}

    def close(self) -> None:
        """No more work is handed out; what waits for some is told so."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._waiters:
            self._wake()

    def _promote(self) -> None:
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        # One timer, for the earliest delayed key, and only while a worker waits: others look before they wait.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._closed:
            delay = max(0.0, self._heap[0][0] - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._promote()
        if self._waiters:
            self._arm()
