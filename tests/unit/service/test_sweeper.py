"""The sweeper: what it takes up, what it leaves alone, and what cannot keep it from the rest."""

from __future__ import annotations

from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.recorded import Recorded
from unit.service.test_registry import ToyExecutor, World


class Defective(ToyExecutor):
    """Has a defect in one of its methods."""

    async def resume(self, record: Operation) -> None:
        raise RuntimeError("a defect")


@mutant("service/operations/sweeper.py", "record.metadata.uid != cached.metadata.uid", "False")
def test_a_request_that_took_the_id_of_an_abandoned_one_is_not_taken_up_in_its_place() -> None:
    world = World()
    world.abandon()
    earlier = world.record
    finish(world.memory.delete(OPERATIONS, earlier.metadata.key))
    world.abandon()
    finish(world.sweeper.take_up(earlier))
    assert world.record.status.phase == "Pending"


@mutant("service/operations/sweeper.py", "        except Exception:\n", "        except KeyboardInterrupt:\n")
def test_a_defect_of_one_executor_keeps_the_sweeper_from_nothing_else() -> None:
    world = World(toy=Defective)
    world.abandon()
    with capture_logs() as said:
        world.sweep()
    assert world.toy.judged == ["stock-0"]
    assert [entry["event"] for entry in said if entry["log_level"] == "error"] == ["sweeping failed unexpectedly"]


@mutant(
    "service/operations/sweeper.py",
    "        self._idle.forget_others({each.obj.metadata.uid for each in seen})\n",
    "",
)
def test_what_went_out_of_sight_and_came_back_counts_as_idle_from_then_on() -> None:
    world = World()
    world.abandon()
    seen = [world.record]
    steps: tuple[tuple[float, list[Operation], str], ...] = (
        (0, seen, "Pending"),
        (10, [], "Pending"),
        (30, seen, "Pending"),
        (30, seen, "Succeeded"),
    )
    for wait, visible, phase in steps:
        world.replica.clock.advance(wait)
        world.unfinished.replace(visible, "1")
        finish(world.sweeper.sweep(older_than=30))
        assert world.record.status.phase == phase


@mutant("service/paging.py", "        token = page.token\n", "        token = None\n")
def test_records_beyond_the_first_page_are_retired_too() -> None:
    memory = Recorded()
    memory.page_size = 1
    world = World(memory=memory)
    for name in ("a", "b", "c"):
        world.ask(operationID=name, name=name)
    for unit in [unit for unit in world.memory.of_kind(GPU_UNITS) if unit.spec.specName == "toy"]:
        finish(world.memory.delete(GPU_UNITS, unit.metadata.key))
    world.retire()
    assert [record.status.deletionTime for record in world.memory.of_kind(OPERATIONS)] == [
        world.replica.clock.now()
    ] * 3
