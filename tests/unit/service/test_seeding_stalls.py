"""A batch that cannot go on now is put aside, and one that goes on is never put aside."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.rest.errors import Unavailable
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.stock.seeding import CHUNK, MOST_STALLED
from unit.service.exploration.memory import Process
from unit.service.exploration.seeding import SeedingScene

MOST_CALLS = 500


def execution(scene: SeedingScene) -> Process:
    """One attempt at the batch, as its queue makes it."""
    (record,) = scene.memory.of_kind(OPERATIONS)
    replica, _ = scene._replica()
    return Process("executor", lambda: replica.queue._seeding.execute(record, resumed=True))


@mutant("service/stock/seeding.py", "if state.stalled > MOST_STALLED:", "if False:")
def test_a_batch_whose_old_unit_is_not_removed_for_long_is_put_aside_and_goes_on_when_it_is() -> None:
    scene = SeedingScene(Random(0))
    first = Process("first", scene.executor("b0"))
    while not scene.memory.of_kind(GPU_UNITS):
        first.step()
    first.stop()
    (unit,) = scene.memory.of_kind(GPU_UNITS)
    scene.memory._write(GPU_UNITS, unit, replace(unit.metadata, deletionTimestamp=scene.clock.now()))
    executor = execution(scene)
    for _ in range(MOST_CALLS):
        if not executor.done:
            executor.step()
    assert isinstance(executor.error, Unavailable), "it asks for ever"
    del scene.memory.objects[GPU_UNITS.kind, unit.metadata.key]
    with capture_logs():
        scene.run("again", scene.executor("b0"))
    (record,) = scene.memory.of_kind(OPERATIONS)
    made = [each.metadata.uid for each in scene.memory.of_kind(GPU_UNITS)]
    assert (record.status.phase, sorted(record.status.units)) == ("Succeeded", sorted(made))
    assert unit.metadata.uid not in made


@mutant("service/stock/seeding.py", "state.stalled = 0 if", "state.stalled = state.stalled + 1 if")
def test_a_batch_that_needs_more_turns_than_a_stalled_one_gets_is_made_in_one_attempt() -> None:
    scene = SeedingScene(Random(0), size=CHUNK * (MOST_STALLED + 3))
    first = Process("first", scene.executor("b0"))
    while not scene.memory.of_kind(OPERATIONS):
        first.step()
    first.stop()
    executor = execution(scene)
    while not executor.done:
        executor.step()
    assert executor.error is None
    assert executor.result.status.phase == "Succeeded"
