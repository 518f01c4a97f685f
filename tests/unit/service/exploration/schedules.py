"""Schedules: which process goes on, for how many calls, and which ones never do again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from gpu_runtime.service.handover import HandOver
from unit.service.exploration.scene import Scene

Segment = tuple[int, int]  # which process, for how many calls


@dataclass(frozen=True)
class Outcome:
    """How many calls the last segment really made: a longer one would be the same play."""

    steps: int


def play(segments: list[Segment], picks: int, handover: type[HandOver] = HandOver) -> Outcome:
    """The play of these segments; who is in none of them, or not to the end, stops for ever. Then the end."""
    choices = iter(_bits(picks))
    scene = Scene(lambda count: next(choices) % count, handover)
    steps = 0
    for process, length in segments:
        steps = 0
        while steps < length and not scene.processes[process].done:
            scene.step(scene.processes[process])
            steps += 1
    scene.end()
    return Outcome(steps)


def every_schedule(processes: list[int], segments: int, picks: int, handover: type[HandOver] = HandOver) -> int:
    """Plays all schedules of at most so many segments of these processes; how many there are."""
    return _extend([], processes, segments, picks, handover)


def random_schedule(seed: int, handover: type[HandOver] = HandOver) -> int:
    """Plays one schedule of any length, in which each process may stop for ever anywhere; its number of steps."""
    rng = Random(seed)
    scene = Scene(rng.randrange, handover)
    alive = list(scene.processes)
    steps = 0
    eagerness = rng.choice((1, 1, 2, 4, 8))  # some schedules switch at every call, some seldom
    while alive:
        process = rng.choice(alive)
        for _ in range(rng.randint(1, eagerness)):
            scene.step(process)
            steps += 1
            if process.done:
                break
        if process.done or rng.random() < 0.03:
            alive.remove(process)
    scene.end()
    return steps


def _extend(prefix: list[Segment], processes: list[int], left: int, picks: int, handover: type[HandOver]) -> int:
    played = 0
    for process in processes:
        if prefix and prefix[-1][0] == process:
            continue
        longest = play([*prefix, (process, 1_000)], picks, handover).steps
        played += 1
        if longest == 0:
            continue
        for length in range(1, longest + 1):
            if left > 1:
                played += _extend([*prefix, (process, length)], processes, left - 1, picks, handover)
            elif length < longest:
                play([*prefix, (process, length)], picks, handover)
                played += 1
    return played


def _bits(picks: int) -> Iterator[int]:
    while True:
        yield picks & 1
        picks >>= 1
