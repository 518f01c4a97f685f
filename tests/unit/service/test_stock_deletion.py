"""Taking stock back: while its controller writes a status, and a copy of a seeded unit."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.resource import Resource
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.exploration.seeding import SeedingScene
from unit.service.replica import PLATFORM, Replica, a_world

STOCK = Key(PLATFORM.stock_namespace, "stock-0")


class Busy(Memory):
    """A controller writes a status of the unit between the first read and the first delete."""

    written = False

    async def delete(self, resource: Resource[Any], key: Key, **conditions: Any) -> None:
        if not self.written:
            self.written = True
            unit = self.objects[resource.kind, key]
            self._write(resource, replace(unit, status=replace(unit.status, readyReplicas=1)), unit.metadata)
        await super().delete(resource, key, **conditions)


@mutant(
    "service/stock/stock_units.py",
    "            except kube.Conflict:\n                continue",
    "            except ZeroDivisionError:\n                continue",
)
def test_stock_is_taken_back_although_its_status_was_written_meanwhile() -> None:
    memory = Busy()
    replica = Replica(a_world(memory, stock=1)).listen()
    finish(replica.executors.stock.delete("stock-0"))
    assert memory.written
    assert (GPU_UNITS.kind, STOCK) not in memory.objects


@mutant("service/stock/unit_list.py", " or unit.metadata.name != unit_name(batch_of(record).name, ordinal):", ":")
def test_a_copy_of_a_seeded_unit_under_another_name_is_deleted_without_taking_its_number() -> None:
    scene = SeedingScene(Random(0))
    executor = Process("executor", scene.executor("b0"))
    while not scene.memory.of_kind(GPU_UNITS):
        executor.step()
    (unit,) = scene.memory.of_kind(GPU_UNITS)
    scene.memory.put(GPU_UNITS, replace(unit, metadata=replace(unit.metadata, name="copy")))
    finish(scene._replica()[0].stock.delete("copy"))
    with capture_logs():
        while not executor.done:
            executor.step()
    (record,) = scene.memory.of_kind(OPERATIONS)
    made = [each.metadata.uid for each in scene.memory.of_kind(GPU_UNITS)]
    assert record.status.units == made
    assert made[0] == unit.metadata.uid
