"""Schedules: which process goes on, for how many calls, and which ones never do again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import structlog

from gpu_runtime.controllers.gpuunit.handover import HandOver as UnitHandOver
from gpu_runtime.service.handover import HandOver
from unit.service.exploration.memory import Process
from unit.service.exploration.scene import Scene

Segment = tuple[int, int]  # which process, for how many calls


class Play:
    """A scene, and what each process has seen in it: two plays that agree in both can only go on alike.

    Twins are two executors of one operation that choose alike: which of them did what makes no difference.
    """

    def __init__(self, scene: Scene, histories: Sequence[int] = (), *, twins: bool = False) -> None:
        self.scene = scene
        self._twins = twins
        self.histories = list(histories) or [0] * len(scene.processes)

    def step(self, number: int) -> None:
        process = self.scene.processes[number]
        saw = self.scene.seen_by(process)
        self.scene.step(process)
        self.histories[number] = hash((self.histories[number], saw))

    def state(self) -> int:
        calls = [(process.next, process.done) for process in self.scene.processes]
        seen = list(zip(self.histories, calls, strict=True))
        if self._twins:
            seen[:2] = sorted(seen[:2])
        return hash((self.scene.left(), *seen))


@dataclass(frozen=True)
class Begun:
    """A schedule up to here, and what each process has seen by then."""

    segments: tuple[Segment, ...] = ()
    histories: tuple[int, ...] = ()


@dataclass
class Exploration:
    """Plays every schedule of at most so many segments, and stops all processes after each call of it.

    A state that was reached before is not gone on from again: what can come of it was played already. The shortest
    schedules come first, so that each state is reached with as many segments left as it can be.
    """

    processes: list[int]
    second: tuple[int, ...] = ()
    """Executors that choose the second stock unit where the others choose the first."""
    handover: type[HandOver] = HandOver
    states: set[int] = field(default_factory=set)
    ends: set[int] = field(default_factory=set)

    def play(self, segments: int) -> Exploration:
        begun = [Begun()]
        for _ in range(segments):
            begun = [longer for each in begun for longer in self.extended(each)]
        return self

    def extended(self, begun: Begun) -> list[Begun]:
        """The schedules with one segment more that lead to states that were not reached before."""
        found: list[Begun] = []
        for number in self.processes:
            if begun.segments and begun.segments[-1][0] == number:
                continue  # the last segment was played with every length
            play, length = self._replayed(begun), 0
            while not play.scene.processes[number].done:
                play.step(number)
                length += 1
                self._stop_here(play.scene)
                state = play.state()
                if state not in self.states:
                    self.states.add(state)
                    found.append(Begun((*begun.segments, (number, length)), tuple(play.histories)))
        return found

    def _replayed(self, begun: Begun) -> Play:
        """Coroutines cannot be copied: the way to a state is gone again. It was checked when it was gone first."""
        scene = Scene(lambda _: 0, self.handover, second=self.second)
        for number, length in begun.segments:
            for _ in range(length):
                scene.trace.append(scene.processes[number].step())
        return Play(scene, begun.histories, twins=(0 in self.second) == (1 in self.second))

    def _stop_here(self, scene: Scene) -> None:
        left = scene.left()
        if left not in self.ends:
            self.ends.add(left)
            scene.stopped().end()


def explore(processes: list[int], segments: int, second: tuple[int, ...] = ()) -> tuple[int, int]:
    """How many states there are, and how many different ends if all stop in one of them. Without a log line."""
    structlog.configure(processors=[_drop])
    found = Exploration(processes, second).play(segments)
    return len(found.states), len(found.ends)


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def random_schedule(
    seed: int, handover: type[HandOver] = HandOver, controller: type[UnitHandOver] = UnitHandOver
) -> int:
    """Plays one schedule of any length, in which each process may stop for ever anywhere; its number of steps."""
    rng = Random(seed)
    scene = Scene(rng.randrange, handover, controller)
    alive: list[Process] = list(scene.processes)
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
