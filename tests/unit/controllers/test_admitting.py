"""What a controller writes when it finishes a hand-over that its executor left."""

from __future__ import annotations

from typing import TypeVar

import pytest

from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_NODE, SOURCE_STOCK_UID
from gpu_runtime.controllers.gpuunit.admitter import Admitter, Settled
from gpu_runtime.controllers.readiness import Blocked
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.decoding import Listing, Skipped
from gpu_runtime.kube.errors import Conflict
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import Replica, a_world, key_of

T = TypeVar("T", bound=Object)


def committed_and_not_admitted(memory: Memory) -> None:
    """A hand-over whose executor died right after its commit."""
    executor = Process("executor", lambda: Replica(memory).listen().create_later())
    while executor.next != "patch GPUUnit demo":
        executor.step()
        assert not executor.done, executor.error


def the_controllers(memory: Memory, *, after: float = 60) -> Admitter:
    clock = FakeClock()
    clock.advance(after)
    return Admitter(memory, None, clock)  # type: ignore[arg-type]


@mutant(
    "api/v1alpha1/provenance.py",
    "notes | ({SOURCE_STOCK_NODE: choice.nodeName} if choice.nodeName else {})",
    "notes",
)
def test_a_recovered_hand_over_keeps_the_node_of_its_stock() -> None:
    memory = a_world(Memory())
    committed_and_not_admitted(memory)
    with pytest.raises(Settled):
        finish(the_controllers(memory).admit(memory.objects[GPU_UNITS.kind, key_of("demo")]))
    assert memory.objects[GPU_UNITS.kind, key_of("demo")].metadata.annotations[SOURCE_STOCK_NODE] == "node-1"


@mutant("controllers/gpuunit/admitter.py", "{**identity(unit.metadata), ", "{")
def test_an_admission_that_was_decided_on_an_earlier_unit_leaves_the_one_that_took_its_name_alone() -> None:
    memory = a_world(Memory())
    committed_and_not_admitted(memory)
    cached = memory.objects[GPU_UNITS.kind, key_of("demo")]
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    another = memory.put(GPU_UNITS, cached)
    with pytest.raises(Conflict):
        finish(the_controllers(memory).admit(cached))
    assert memory.objects[GPU_UNITS.kind, key_of("demo")] == another


@mutant("controllers/gpuunit/admitter.py", "uid=meta.uid, resource_version=meta.resourceVersion)", "uid=meta.uid)")
def test_a_unit_that_was_admitted_since_the_look_is_not_removed_for_its_missing_record() -> None:
    memory = a_world(Memory())
    committed_and_not_admitted(memory)
    cached = memory.objects[GPU_UNITS.kind, key_of("demo")]
    admitted = finish(memory.patch(GPU_UNITS, key_of("demo"), {"metadata": {"annotations": {SOURCE_STOCK_UID: "uid"}}}))
    for record in memory.of_kind(OPERATIONS):
        finish(memory.delete(OPERATIONS, record.metadata.key))
    with pytest.raises(Conflict):
        finish(the_controllers(memory).admit(cached))
    assert memory.objects[GPU_UNITS.kind, key_of("demo")] == admitted


class Unreadable(Memory):
    """A server whose Operations another version of the product wrote."""

    async def list(self, query: Query[T]) -> Listing[T]:
        found = await super().list(query)
        skipped = [Skipped(each.metadata.key, each.metadata.resourceVersion, "no number") for each in found.items]
        return Listing([], skipped, found.resource_version)


@mutant("controllers/gpuunit/admitter.py", "        if listing.skipped:\n", "        if False:\n")
def test_a_unit_whose_record_cannot_be_read_is_not_removed() -> None:
    memory = a_world(Unreadable())
    committed_and_not_admitted(memory)
    unit = memory.objects[GPU_UNITS.kind, key_of("demo")]
    with pytest.raises(Blocked, match="cannot be read: no number"):
        finish(the_controllers(memory).admit(unit))
    assert memory.objects[GPU_UNITS.kind, key_of("demo")] == unit


@mutant("controllers/gpuunit/admitter.py", "return age if age > -1.0 else EXECUTOR_SECONDS", "return age")
def test_a_controller_whose_clock_is_an_hour_behind_the_servers_finishes_a_hand_over_at_once() -> None:
    memory = a_world(Memory())
    committed_and_not_admitted(memory)
    with pytest.raises(Settled):
        finish(the_controllers(memory, after=-3600).admit(memory.objects[GPU_UNITS.kind, key_of("demo")]))
