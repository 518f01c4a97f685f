"""Plays load curves against the activator's decision, and draws what happens.

    python hack/scaling.py                       # a table
    python hack/scaling.py --svg docs/scaling.svg

The decision is the product's own (`gpu_runtime.activator.decision`); queue, workers and time are simulated.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runtime.activator.decision import Action, Create, Drain, Patch, Policy, Remove, Worker, WorkerState, decide
from gpu_runtime.activator.demand import Demand

STEP = 0.25
START_SECONDS = 5.0
RUN_SECONDS = 2.0
DRAIN_SECONDS = 1.0

Curve = Callable[[float], float]
"""Invocations that arrive per second, by time."""

CURVES: dict[str, Curve] = {
    "steady: 2 a second": lambda _: 2.0,
    "one burst of 100 calls": lambda t: 100.0 if 10 <= t < 11 else 0.0,
    "ramp up and down": lambda t: max(0.0, 4.0 - abs(t - 150) / 30),
    "a day in 5 minutes": lambda t: 2.0 + 2.0 * math.sin(t / 300 * 2 * math.pi),
    "a call every 20 s": lambda t: 4.0 if t % 20 < STEP else 0.0,
    "a call every 45 s": lambda t: 4.0 if t % 45 < STEP else 0.0,
}
POLICY = Policy(concurrency=2, min_workers=0, max_workers=5, idle_seconds=30.0)


@dataclass
class SimulatedWorker:
    state: WorkerState
    since: float
    ends: list[float] = field(default_factory=list)
    """When each of its runs ends."""
    idle_since: float = 0.0

    def seen(self, slot: int, now: float) -> Worker:
        return Worker(
            slot=slot,
            state=self.state,
            state_seconds=now - self.since,
            running=len(self.ends),
            idle_seconds=0.0 if self.ends else now - self.idle_since,
        )


@dataclass
class Fleet:
    """Simulated workers that do what they are told."""

    start_seconds: float = START_SECONDS
    workers: dict[int, SimulatedWorker] = field(default_factory=dict)
    draining: dict[int, float] = field(default_factory=dict)
    started: int = 0
    ended: int = 0

    def seen(self, now: float) -> list[Worker]:
        return [worker.seen(slot, now) for slot, worker in sorted(self.workers.items())]

    def apply(self, actions: Sequence[Action], now: float) -> None:
        for action in actions:
            match action:
                case Create():
                    assert action.slot not in self.workers, "a slot that is taken"
                    self.workers[action.slot] = SimulatedWorker("starting", now)
                    self.started += 1
                case Drain():
                    self.draining.setdefault(action.slot, now + DRAIN_SECONDS)
                case Patch():
                    self.workers[action.slot] = SimulatedWorker("starting", now)
                case Remove():
                    assert not self.workers[action.slot].ends, "a worker that still runs something"
                    del self.workers[action.slot]
                    self.draining.pop(action.slot, None)
                    self.ended += 1

    def advance(self, now: float) -> None:
        """Workers become ready, hear that they should drain, and finish runs."""
        for slot, worker in self.workers.items():
            if worker.state == "starting" and now - worker.since >= self.start_seconds:
                worker.state, worker.since, worker.idle_since = "ready", now, now
            if worker.state == "ready" and now >= self.draining.get(slot, math.inf):
                worker.state, worker.since = "draining", now
            left = [end for end in worker.ends if end > now]
            if worker.ends and not left:
                worker.idle_since = now
            worker.ends = left


@dataclass(frozen=True)
class Sample:
    time: float
    load: int
    workers: int
    ready: int


@dataclass
class Outcome:
    samples: list[Sample] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    started: int = 0
    ended: int = 0

    @property
    def worker_seconds(self) -> float:
        return sum(sample.workers for sample in self.samples) * STEP

    def wait(self, share: float) -> float:
        """The wait that this share of the invocations did not exceed."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def simulate(curve: Curve, policy: Policy = POLICY, seconds: float = 300.0) -> Outcome:
    fleet, outcome, demand = Fleet(), Outcome(), Demand(0.0)
    queue: deque[float] = deque()
    owed = 0.0
    for step in range(int(seconds / STEP)):
        now = step * STEP
        owed += curve(now) * STEP
        while owed >= 1.0:
            queue.append(now)
            owed -= 1.0
        fleet.advance(now)
        for worker in fleet.workers.values():
            while worker.state == "ready" and queue and len(worker.ends) < policy.concurrency:
                outcome.waits.append(now - queue.popleft())
                worker.ends.append(now + RUN_SECONDS)
        load = len(queue) + sum(len(worker.ends) for worker in fleet.workers.values())
        demand.observe(now, policy.needed(load))
        fleet.apply(decide(policy, demand, fleet.seen(now), now).actions, now)
        ready = sum(worker.state == "ready" for worker in fleet.workers.values())
        outcome.samples.append(Sample(now, load, len(fleet.workers), ready))
    outcome.started, outcome.ended = fleet.started, fleet.ended
    return outcome


def table() -> str:
    limits = (
        f"0 to {POLICY.max_workers} workers of concurrency {POLICY.concurrency}, idle time {POLICY.idle_seconds:g} s"
    )
    head = f"{'curve':<24}{'calls':>7}{'wait p50':>10}{'p99':>8}{'starts':>8}{'ends':>6}{'most':>6}"
    lines = [
        f"{limits}; a start takes {START_SECONDS:g} s, a run {RUN_SECONDS:g} s; 300 s each",
        f"{head}{'worker-s':>10}{'at the end':>12}",
    ]
    for name, curve in CURVES.items():
        found = simulate(curve)
        most = max(sample.workers for sample in found.samples)
        lines.append(
            f"{name:<24}{len(found.waits):>7}{found.wait(0.5):>8.2f} s{found.wait(0.99):>6.1f} s{found.started:>8}"
            f"{found.ended:>6}{most:>6}{found.worker_seconds:>10.0f}{found.samples[-1].workers:>12}"
        )
    return "\n".join(lines)


WIDTH, HEIGHT, LEFT, TOP, GAP = 760, 110, 40, 50, 46


def svg() -> str:
    """One chart for each curve: unfinished invocations as an area, workers as a line."""
    height = TOP + len(CURVES) * (HEIGHT + GAP)
    size = f"0 0 {WIDTH + LEFT + 60} {height}"
    title = "Unfinished invocations (grey, left), workers (blue, right) and ready workers (green) over 300 s"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20">{title}</text>',
    ]
    for number, (name, curve) in enumerate(CURVES.items()):
        parts += _chart(name, simulate(curve), TOP + number * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _chart(name: str, outcome: Outcome, top: float) -> list[str]:
    samples, bottom = outcome.samples, top + HEIGHT
    most_load = max(1, *(sample.load for sample in samples))
    most_workers = POLICY.max_workers
    seconds = samples[-1].time

    def x(time: float) -> float:
        return LEFT + time / seconds * WIDTH

    def line(values: Sequence[int], most: int) -> str:
        """A step line; points where nothing changes are left out."""
        points, before = [], None
        for sample, value in zip(samples, values, strict=True):
            if before is not None and value == before and sample is not samples[-1]:
                continue
            y = bottom - value / most * HEIGHT
            if before is not None:
                points.append(f"{x(sample.time):.1f},{bottom - before / most * HEIGHT:.1f}")
            points.append(f"{x(sample.time):.1f},{y:.1f}")
            before = value
        return " ".join(points)

    area = f"{LEFT},{bottom} {line([sample.load for sample in samples], most_load)} {LEFT + WIDTH},{bottom}"
    workers, ready = [sample.workers for sample in samples], [sample.ready for sample in samples]
    return [
        f'<text x="{LEFT}" y="{top - 6}">{name}</text>',
        f'<polygon points="{area}" fill="#ddd"/>',
        f'<polyline points="{line(ready, most_workers)}" fill="none" stroke="#2a9d3a" stroke-width="1"/>',
        f'<polyline points="{line(workers, most_workers)}" fill="none" stroke="#2563c9" stroke-width="1.5"/>',
        f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDTH}" y2="{bottom}" stroke="#888"/>',
        f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end" fill="#666">{most_load}</text>',
        f'<text x="{LEFT + WIDTH + 6}" y="{top + 10}" fill="#2563c9">{most_workers}</text>',
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=Path, help="write the charts to this file")
    arguments = parser.parse_args()
    if arguments.svg is not None:
        arguments.svg.write_text(svg())
    print(table())


if __name__ == "__main__":
    main()
