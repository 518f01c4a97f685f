"""What a controller writes when it finishes a hand-over that its executor left."""

from __future__ import annotations

import pytest

from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_NODE
from gpu_runtime.controllers.gpuunit.admitter import Admitter, Settled
from gpu_runtime.kube.errors import Conflict
from gpu_runtime.service.cluster import GPU_UNITS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import Replica, a_world, key_of


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


@mutant("controllers/gpuunit/admitter.py", "return age if age > -1.0 else EXECUTOR_SECONDS", "return age")
def test_a_controller_whose_clock_is_an_hour_behind_the_servers_finishes_a_hand_over_at_once() -> None:
    memory = a_world(Memory())
    committed_and_not_admitted(memory)
    with pytest.raises(Settled):
        finish(the_controllers(memory, after=-3600).admit(memory.objects[GPU_UNITS.kind, key_of("demo")]))
