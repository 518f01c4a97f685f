"""Records live as long as what they made, and a day longer."""

from __future__ import annotations

from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.scene import PLATFORM, Scene, key_of

DAY = 24 * 3600


class Play:
    """One finished hand-over."""

    def __init__(self) -> None:
        self.scene = Scene(lambda _: 0)
        self.memory = self.scene.memory
        executor = self.scene.processes[0]
        while not executor.done:
            executor.step()
        assert executor.error is None

    def retire(self) -> None:
        finish(self.scene.sweeper().retire())

    def delete_unit(self) -> None:
        finish(self.memory.delete(GPU_UNITS, key_of("unit-a")))

    def wait(self, seconds: float) -> None:
        self.scene.clock.advance(seconds)


def test_a_record_is_kept_while_its_unit_lives() -> None:
    play = Play()
    play.wait(100 * DAY)
    play.retire()
    (record,) = play.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime is None


def test_a_record_outlives_its_unit_by_a_day_counted_from_when_that_was_noticed() -> None:
    play = Play()
    play.wait(100 * DAY)
    play.delete_unit()
    play.retire()
    (record,) = play.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime == play.scene.clock.now()
    play.wait(PLATFORM.retention_seconds - 1)
    play.retire()
    assert len(play.memory.of_kind(OPERATIONS)) == 1
    play.wait(1)
    play.retire()
    assert not play.memory.of_kind(OPERATIONS)


def test_what_is_unfinished_is_never_retired() -> None:
    scene = Scene(lambda _: 0)
    executor = scene.processes[0]
    while not scene.memory.of_kind(OPERATIONS):
        executor.step()
    scene.clock.advance(100 * DAY)
    finish(scene.sweeper().retire())
    assert len(scene.memory.of_kind(OPERATIONS)) == 1
