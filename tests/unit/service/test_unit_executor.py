"""Hand-overs that were given up: the stock comes free, and the request can be sent again."""

from __future__ import annotations

from equipment.mutation import mutant
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.stock.claim import holder
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import Replica, a_world, key_of


def claimed(memory: Memory) -> None:
    """A hand-over whose executor died when it had claimed its stock."""
    executor = Process("first", lambda: Replica(memory).listen().create_later())
    while not any(holder(unit) for unit in memory.of_kind(GPU_UNITS)):
        executor.step()
        assert not executor.done, executor.error
    executor.stop()


@mutant("service/units/unit_executor.py", "record.metadata.uid != holder(stock) or ", "")
def test_stock_that_a_lost_record_claimed_is_freed_though_the_next_record_of_its_name_chose_it_too() -> None:
    memory = a_world(Memory(), stock=1)
    behind = Replica(memory).listen()
    claimed(memory)
    (lost,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, lost.metadata.key))
    second = Process("second", behind.create_later)
    while not memory.of_kind(OPERATIONS):
        second.step()
    for held in Replica(memory).listen().executors.of_units.held():
        finish(held.judge())
    (stock,) = memory.of_kind(GPU_UNITS)
    assert not holder(stock)


@mutant(
    "service/units/unit_executor.py",
    "            await self._handover.undo(record)\n            return None",
    "            return None",
)
def test_a_request_whose_hand_over_failed_begins_again_without_waiting_for_the_sweeper() -> None:
    memory = a_world(Memory(), stock=1)
    claimed(memory)
    replica = Replica(memory)
    (record,) = memory.of_kind(OPERATIONS)
    finish(replica.operations.fail(record, "service_unavailable", "given up", settled=False))
    _, new = replica.listen().create()
    assert new
    assert memory.objects[GPU_UNITS.kind, key_of("demo")]
