"""From a request to its operation: what is compared before anything is done."""

from __future__ import annotations

import pytest

from equipment.mutation import mutant
from gpu_runtime.rest.errors import OperationConflict
from gpu_runtime.service.cluster import GPU_UNITS
from unit.service.test_registry import World


@mutant("service/operations/flow.py", "        check_same(record, wanted.request_hash)\n        done", "        done")
def test_the_unfinished_operation_of_another_request_is_not_carried_on_for_one_that_uses_its_id() -> None:
    world = World()
    world.abandon()
    before = world.memory.of_kind(GPU_UNITS)
    with pytest.raises(OperationConflict):
        world.ask(name="another")
    assert world.record.status.phase == "Pending"
    assert world.memory.of_kind(GPU_UNITS) == before
