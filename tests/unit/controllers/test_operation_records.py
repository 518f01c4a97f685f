"""Which records a controller remembers instead of reading them again."""

from __future__ import annotations

from msgspec.structs import replace

from equipment.builders import an_operation
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.kube.store import Store
from gpu_runtime.service.cluster import OPERATIONS
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory


@mutant(
    "controllers/operation_records.py",
    'if record is not None and record.status.phase == "Succeeded":',
    "if record is not None:",
)
def test_a_failed_record_is_read_again_because_its_batch_may_go_on_and_list_more() -> None:
    memory = Memory()
    records = OperationRecords(memory, Store[Operation]())  # type: ignore[arg-type]
    failed = memory.put(OPERATIONS, an_operation("seed", "CreateStockUnits").status(phase="Failed").object())
    name, uid = failed.metadata.name, failed.metadata.uid
    assert finish(records.find(name, uid)) == failed
    ended = replace(failed, status=replace(failed.status, phase="Succeeded", units=["one"]))
    done = finish(memory.replace(OPERATIONS, ended))
    assert finish(records.find(name, uid)) == done
    assert records.known(uid) == done
