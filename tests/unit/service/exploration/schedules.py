"""Schedules: which process runs next, for how many calls, and which processes have stopped for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import structlog

from gpu_runtime.controllers.gpuunit.admitter import Admitter
from gpu_runtime.service.units.handover import HandOver
from unit.service.exploration.memory import Process
from unit.service.exploration.scene import Scene

Segment = tuple[int, int]  # which process, for how many calls


class Play:
    """A scene, and what each process has seen in it. Two plays that are equal in both have the same possible futures.

    Twins are two executors of one operation that make the same choices: it does not matter which of them did what.
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

    A state that was reached before is not continued again: everything after it was played already. The shortest
    schedules come first, so that each state is first reached with the most segments left.
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
        """Plays the segments again, because coroutines cannot be copied. They were checked the first time."""
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
    """Numbers of states, and of different ends when all processes stop in one of them. Logging is off."""
    structlog.configure(processors=[_drop])
    found = Exploration(processes, second).play(segments)
    return len(found.states), len(found.ends)


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def random_schedule(seed: int, handover: type[HandOver] = HandOver, controller: type[Admitter] = Admitter) -> int:
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
