"""What must never be seen at the broker, in the frameworks and in the answers to clients."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.messages import STATE
from gpu_runtime.serverless.subjects import Run
from unit.serverless.exploration.jetstream import JetStream, Stored

MAX_ATTEMPTS = 3


class Violation(AssertionError):
    """The protocol broke. The text is what happened, call by call."""


@dataclass
class Judge:
    broker: JetStream
    harm: Any
    """How many crashes, stalls and losses there were so far."""
    ends: dict[Run, Stored] = field(default_factory=dict)
    ended_at: dict[Run, float] = field(default_factory=dict)
    delivered_at: dict[tuple[Run, int], float] = field(default_factory=dict)
    deliveries: Counter[Run] = field(default_factory=Counter)
    executions: Counter[Run] = field(default_factory=Counter)
    failures: Counter[Run] = field(default_factory=Counter)
    promised: set[Run] = field(default_factory=set)
    trace: list[str] = field(default_factory=list)
    problem: str = ""

    def __post_init__(self) -> None:
        self.broker.observers.append(self._observe)

    def say(self, what: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():9.3f} {what}")

    def wrong(self, what: str) -> None:
        """Noted and raised at the end: an exception in here would only end some task of the program."""
        self.say(f"WRONG: {what}")
        self.problem = self.problem or what

    def check(self) -> None:
        if self.problem:
            raise Violation("\n".join([self.problem, *self.trace]))

    def accepted(self, run: Run, words: str) -> None:
        """A client was told that its invocation is accepted."""
        self.say(f"client: {run} accepted, {words}")
        self.promised.add(run)
        if not self.is_stored(run):
            self.wrong(f"{run} was answered as accepted and is not stored: lost")

    def refused(self, run: Run, words: str) -> None:
        """A client was told that it is not accepted, in so many words."""
        self.say(f"client: {run} refused, {words}")
        if self.is_stored(run):
            self.wrong(f"{run} was refused and is queued")

    def is_stored(self, run: Run) -> bool:
        return self.broker.streams["INVOCATIONS"].last(subjects.accepted_any(run)) is not None

    def runs(self, run: Run, attempt: int, worker: str) -> None:
        """A framework is called."""
        self.say(f"{worker}: runs {run}, attempt {attempt}")
        self.executions[run] += 1
        ended, delivered = self.ended_at.get(run), self.delivered_at[run, attempt]
        if ended is not None and ended < delivered:
            self.wrong(f"{run} ran although its end was there")
        if self.executions[run] > MAX_ATTEMPTS:
            self.wrong(f"{run} ran more often than its attempts allow: a poison payload would run for ever")
        if self.executions[run] > 1 + self.failures[run] + self.harm():
            self.wrong(f"{run} ran twice without a failure or a crash")

    def failed(self, run: Run, worker: str) -> None:
        self.say(f"{worker}: {run} fails")
        self.failures[run] += 1

    def _observe(self, what: str, message: Stored) -> None:
        if message.subject.startswith("res.") and what == "stored":
            self._ended(message)
        elif message.subject.startswith("inv."):
            run, _ = subjects.parse_accepted(message.subject)
            if what == "stored":
                self._queued(run, message)
            elif what == "delivered":
                self.deliveries[run] += 1
                self.delivered_at[run, self.deliveries[run]] = asyncio.get_running_loop().time()
                self.say(f"broker: delivers {run}, {self.deliveries[run]}")
            elif what == "acked":
                self.say(f"broker: {run} is acknowledged")
                if run not in self.ends:
                    self.wrong(f"{run} was acknowledged without an end: lost")

    def _queued(self, run: Run, message: Stored) -> None:
        self.say(f"broker: stores {message.subject}")
        stored = self.broker.streams["INVOCATIONS"].messages.values()
        if sum(subjects.parse_accepted(each.subject)[0] == run for each in stored) > 1:
            self.wrong(f"{run} is queued twice")
        before = self.ends.get(Run(run.function, run.invocation_id, run.number - 1))
        if run.number > 1 and (before is None or before.headers[STATE] == "succeeded"):
            self.wrong(f"{run} was made although the run before had not ended, or with success")

    def _ended(self, message: Stored) -> None:
        run = subjects.parse_ended(message.subject)
        self.say(f"broker: {run} ends, {message.headers[STATE]}")
        if run in self.ends:
            self.wrong(f"{run} has a second end")
        self.ends[run] = message
        self.ended_at[run] = asyncio.get_running_loop().time()

    def compare(self, rows: Mapping[Run, str]) -> None:
        """The database says what the broker says."""
        for run, state in rows.items():
            if run not in self.ends or self.ends[run].headers[STATE] != state:
                self.wrong(f"the database says of {run} that it {state}, and the broker {self.ends.get(run)}")

    def unfinished(self, rows: Mapping[Run, str], *, workers: bool) -> list[str]:
        """What is not as it must be at rest. Without workers nobody acknowledges."""
        stream = self.broker.streams["INVOCATIONS"]
        runs = {subjects.parse_accepted(each.subject)[0]: each.sequence for each in stream.messages.values()}
        shared = [each for (_, name), each in self.broker.consumers.items() if "__" in name]
        acked = {number for each in shared for number in each.acked}
        return (
            [f"{run} has no end" for run in runs if run not in self.ends]
            + [f"{run} is delivered for ever" for run, number in runs.items() if workers and number not in acked]
            + [f"the end of {run} is not in the database" for run in self.ends if run not in rows]
        )
