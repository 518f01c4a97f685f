"""Many batches on two replicas, with consumption, restarts and lost answers in between: one run in memory."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import structlog

from equipment.judge import unlisted
from unit.service.exploration.memory import Process
from unit.service.exploration.scene import PLATFORM
from unit.service.exploration.seeding import SeedingScene

BATCHES, SIZE = 50, 20
AT_ONCE = 6
LOST, KILLED = 0.01, 0.002  # probability that an answer is lost; that a process dies at a call
SLEEPS, AWAKES = 0.03, 0.005  # probability that an executor freezes at a call; that a frozen one goes on


@dataclass(frozen=True)
class Count:
    """What happened in one run."""

    consumed: int
    kills: int
    lost: int
    duplicates: int


def run(seed: int) -> Count:
    """Every batch is asked for twice; executors, sweepers, controllers and consumers take turns at random."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    rng = Random(seed)
    scene = SeedingScene(rng, batches=BATCHES, size=SIZE)
    scene.sweep_seconds = 60  # the records outlive the run
    scene.caches_last = 10
    lost = kills = 0

    def loses() -> bool:
        nonlocal lost
        lost += (is_lost := rng.random() < LOST)
        return is_lost

    scene.memory.loses = loses
    requests = [*scene.sizes, *scene.sizes]
    # A replay follows its first request closely, so that two executors of one batch are often at work at once.
    requests.sort(key=lambda batch: int(batch[1:]) + rng.uniform(0, 3))
    requests.reverse()
    others = {"controller": scene.controller, "sweeper": scene.sweeper, "one": scene.consumer, "two": scene.consumer}
    active: list[Process] = []
    asleep: list[Process] = []
    while requests or active or asleep:
        while requests and len(active) < AT_ONCE:
            active.append(Process("executor", scene.executor(requests.pop())))
        kinds = {process.name for process in active}
        active += [Process(name, work) for name, work in others.items() if requests and name not in kinds]
        if asleep and (not active or rng.random() < AWAKES):
            active.append(asleep.pop(rng.randrange(len(asleep))))
        process = rng.choice(active)
        scene.step(process)
        if not process.done and rng.random() < KILLED:
            process.stop()
            kills += 1
        if process.done:
            active.remove(process)
        elif process.name == "executor" and rng.random() < SLEEPS:
            active.remove(process)
            asleep.append(process)
    scene.end()
    late = unlisted(scene.memory.seen, stock_namespace=PLATFORM.stock_namespace)
    return Count(len(scene.consumed), kills, lost, len(late))
