from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from equipment.clock import FakeClock
from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.queue import FIRST, Queue

A, B = Key("ns", "a"), Key("ns", "b")
KEYS = st.sampled_from([Key("ns", name) for name in "abcd"])


class QueueMachine(RuleBasedStateMachine):
    """Adds, delays, failures, takes and ends in any order: no key is lost, doubled or worked on twice at once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue = Queue(clock=self.clock)
        self.owed: set[Key] = set()
        self.busy: list[Key] = []

    @rule(key=KEYS, urgent=st.integers(0, FIRST))
    def add(self, key: Key, urgent: int) -> None:
        self.queue.add(key, urgent=urgent)
        self.owed.add(key)

    @rule(key=KEYS, delay=st.floats(0.0, 10.0))
    def add_later(self, key: Key, delay: float) -> None:
        self.queue.add_after(key, delay)
        self.owed.add(key)

    @rule(key=KEYS)
    def fail(self, key: Key) -> None:
        self.queue.retry(key)
        self.owed.add(key)

    @rule(seconds=st.floats(0.0, 10.0))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def take(self) -> None:
        key = self.queue.try_get()
        if key is not None:
            assert key not in self.busy
            self.busy.append(key)
            if key not in self.queue.pending():
                self.owed.discard(key)

    @rule()
    def finish(self) -> None:
        if self.busy:
            self.queue.done(self.busy.pop(0))

    @rule(key=KEYS)
    def succeed(self, key: Key) -> None:
        self.queue.forget(key)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.owed <= self.queue.pending()

    @invariant()
    def nothing_waits_twice(self) -> None:
        waiting = [*self.queue._first, *self.queue._urgent, *self.queue._others]
        assert len(waiting) == len(set(waiting)) == len(self.queue)

    def teardown(self) -> None:
        """Whatever happened, everything owed can be worked off in the end."""
        for key in self.busy:
            self.queue.done(key)
        self.clock.advance(1000.0)
        while (left := self.queue.try_get()) is not None:
            self.queue.done(left)
        assert not self.queue.pending()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


@mutant(
    "kube/queue.py",
    "if key in self._busy:",
    "if False:",
)
def test_a_key_is_never_given_to_two_workers_at_once() -> None:
    queue = Queue()
    queue.add(A)
    assert queue.try_get() == A
    queue.add(A)
    assert queue.try_get() is None


@mutant("kube/queue.py", "if key in self._again:", "if False:")
def test_an_add_during_processing_runs_once_more() -> None:
    queue = Queue()
    queue.add(A)
    assert queue.try_get() == A
    queue.add(A)
    queue.add(A)
    queue.done(A)
    assert queue.try_get() == A
    queue.done(A)
    assert queue.try_get() is None


def test_a_key_that_waits_is_not_added_twice() -> None:
    queue = Queue()
    queue.add(A)
    queue.add(B)
    queue.add(A)
    assert [queue.try_get(), queue.try_get(), queue.try_get()] == [A, B, None]


@mutant("kube/queue.py", "elif urgent and key not in self._first:", "elif False:")
def test_what_is_urgent_comes_first_also_when_it_becomes_so_while_it_waits() -> None:
    queue = Queue()
    queue.add(A)
    queue.add(B)
    queue.add(B, urgent=True)
    assert [queue.try_get(), queue.try_get(), queue.try_get()] == [B, A, None]


@mutant("kube/queue.py", "if urgent >= FIRST:", "if False:")
@mutant("kube/queue.py", "elif urgent and key not in self._first:", "elif urgent:")
def test_what_somebody_awaits_comes_before_all_that_is_urgent_and_stays_there() -> None:
    queue = Queue()
    queue.add(A, urgent=True)
    queue.add(B, urgent=True)
    queue.add(B, urgent=FIRST)
    queue.add(B, urgent=True)
    assert [queue.try_get(), queue.try_get(), queue.try_get()] == [B, A, None]


@mutant("kube/queue.py", "max(urgent, self._again.get(key, 0))", "urgent")
@mutant("kube/queue.py", "urgent=self._again.pop(key)", "urgent=self._again.pop(key) and 0")
def test_what_becomes_urgent_while_it_is_worked_on_comes_first_afterwards() -> None:
    queue = Queue()
    queue.add(A)
    assert queue.try_get() == A
    queue.add(B)
    queue.add(A, urgent=True)
    queue.add(A)
    queue.done(A)
    assert [queue.try_get(), queue.try_get()] == [A, B]


@mutant("kube/queue.py", "self._taken % PATIENCE == 2", "False")
def test_what_is_urgent_does_not_wait_for_ever_for_what_comes_first() -> None:
    queue = Queue()
    queue.add(B, urgent=True)
    taken: list[Key | None] = []
    while B not in taken:
        queue.add(A, urgent=FIRST)
        taken.append(queue.try_get())
        queue.done(A)
        assert len(taken) < 10
    assert taken.count(A) <= 3


@mutant("kube/queue.py", "self._taken % PATIENCE == 0", "False")
def test_what_is_not_urgent_does_not_wait_for_ever() -> None:
    queue = Queue()
    queue.add(B)
    taken: list[Key | None] = []
    while B not in taken:
        queue.add(A, urgent=True)
        taken.append(queue.try_get())
        queue.done(A)
        assert len(taken) < 10
    assert taken.count(A) == 3


@mutant(
    "kube/queue.py", "RETRIES = Exponential(first=0.005, most=300.0)", "RETRIES = Exponential(first=0.005, most=900.0)"
)
def test_failures_of_a_key_back_off_exponentially_from_5_ms_to_5_min() -> None:
    clock = FakeClock()
    queue = Queue(clock=clock)
    waited = []
    for _ in range(20):
        before = clock.monotonic()
        queue.retry(A)
        clock.seconds = queue._due[A]
        waited.append(round(clock.monotonic() - before, 6))
        assert queue.try_get() == A
        queue.done(A)
    assert waited[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waited[-1] == 300.0


@mutant("kube/queue.py", "self._failures.pop(key, None)", "pass")
def test_success_makes_the_next_failure_the_first() -> None:
    clock = FakeClock()
    queue = Queue(clock=clock)
    for _ in range(5):
        queue.retry(A)
    queue.forget(A)
    clock.advance(10.0)
    assert queue.try_get() == A
    queue.done(A)
    queue.retry(A)
    assert round(queue._due[A] - clock.monotonic(), 6) == 0.005


def test_back_off_of_one_key_does_not_delay_another() -> None:
    queue = Queue(clock=FakeClock())
    for _ in range(10):
        queue.retry(A)
    queue.add(B)
    assert queue.try_get() == B


@mutant("kube/queue.py", "max(self._retries.after(failures), at_least)", "self._retries.after(failures)")
def test_retry_waits_at_least_as_long_as_the_server_asked() -> None:
    clock = FakeClock()
    queue = Queue(clock=clock)
    queue.retry(A, at_least=7.0)
    clock.advance(6.9)
    assert queue.try_get() is None
    clock.advance(0.2)
    assert queue.try_get() == A


def test_of_several_delays_the_earliest_counts() -> None:
    clock = FakeClock()
    queue = Queue(clock=clock)
    queue.add_after(A, 60.0)
    queue.add_after(A, 1.0)
    queue.add_after(A, 30.0)
    clock.advance(1.1)
    assert queue.try_get() == A
    queue.done(A)
    clock.advance(100.0)
    assert queue.try_get() is None


async def test_a_waiting_worker_is_woken_by_a_delayed_key() -> None:
    queue = Queue()
    worker = asyncio.create_task(queue.get())
    await eventually(lambda: bool(queue._waiters))
    queue.add_after(A, 0.01)
    assert await worker == A


async def test_every_waiting_worker_gets_a_key_when_there_are_enough() -> None:
    queue = Queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await eventually(lambda: len(queue._waiters) == 2)
    queue.add(A)
    queue.add(B)
    assert {await worker for worker in workers} == {A, B}


async def test_a_wake_up_that_meets_a_cancelled_worker_reaches_another() -> None:
    queue = Queue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await eventually(lambda: len(queue._waiters) == 2)
    queue.add(A)  # wakes the first ...
    first.cancel()  # ... which never gets to take the key
    assert await second == A


async def test_closing_the_queue_sends_every_worker_home() -> None:
    queue = Queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await eventually(lambda: len(queue._waiters) == 3)
    queue.close()
    assert [await worker for worker in workers] == [None, None, None]
    queue.add(A)
    assert await queue.get() is None
