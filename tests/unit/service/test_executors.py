"""Executors of pools and batches beside another request: each ends its own record, and no other."""

from __future__ import annotations

from typing import Any

from equipment.mutation import mutant
from gpu_runtime.rest.errors import OperationConflict, SpecConflict
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockPool, CreateStockUnits
from gpu_runtime.service.cluster import OPERATIONS, STOCK_POOLS
from gpu_runtime.service.operations.flow import carry_out
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import PLATFORM, Replica, a_world

POOL = {"operationID": "p", "specName": "g1", "replicas": 0, "name": "pool", "namespace": PLATFORM.instance_namespace}
BATCH = {"operationID": "b", "specName": "new", "memory": "1Gi", "gpu": 1, "replicas": 1}


def asking_for_a_pool(memory: Memory, **changes: Any) -> Process:
    sent = {**POOL, **changes}
    request = parse(CreateStockPool, sent)
    return Process("executor", lambda: Replica(memory).listen().pools.create(request, sent))


def asking_for_a_batch(memory: Memory, **changes: Any) -> Process:
    sent = {**BATCH, **changes}
    request = parse(CreateStockUnits, sent)
    return Process("executor", lambda: carry_out(Replica(memory).listen().executors.of_batches, request, sent, ""))


def stopped_before(executor: Process, what: str) -> Process:
    while not executor.next.startswith(what):
        executor.step()
        assert not executor.done, executor.error
    return executor


def forget_records(memory: Memory) -> None:
    for record in memory.of_kind(OPERATIONS):
        finish(memory.delete(OPERATIONS, record.metadata.key))


@mutant(
    "service/operations/object_executor.py",
    "if current is None or current.metadata.uid != record.metadata.uid:",
    "if current is None:",
)
def test_an_executor_whose_record_gave_its_id_to_another_request_takes_its_pool_back_and_leaves_that_record() -> None:
    memory = a_world(Memory())
    late = stopped_before(asking_for_a_pool(memory), "replace Operation")
    forget_records(memory)
    stopped_before(asking_for_a_pool(memory, specName="g2"), "create StockPool")
    (other,) = memory.of_kind(OPERATIONS)
    while not late.done:
        late.step()
    assert isinstance(late.error, OperationConflict)
    assert memory.of_kind(OPERATIONS) == [other]
    assert memory.of_kind(STOCK_POOLS) == []


@mutant("service/operations/object_executor.py", "or not made_by(obj.metadata, record):", ":")
def test_the_deletion_of_a_pool_does_not_end_the_record_of_another_request_with_its_id() -> None:
    memory = a_world(Memory())
    stopped_before(asking_for_a_pool(memory), "replace Operation")
    forget_records(memory)
    stopped_before(asking_for_a_pool(memory, name="another"), "create StockPool")
    (other,) = memory.of_kind(OPERATIONS)
    finish(Replica(memory).listen().pools.delete(PLATFORM.instance_namespace, "pool"))
    assert memory.of_kind(STOCK_POOLS) == []
    assert memory.of_kind(OPERATIONS) == [other]


@mutant(
    "service/stock/batch_executor.py",
    "            except ServiceError:\n                await self._operations.remove(record)\n",
    "            except ServiceError:\n",
)
def test_a_batch_that_is_refused_beside_another_leaves_no_record_and_its_id_free() -> None:
    memory = a_world(Memory())
    first = asking_for_a_batch(memory)
    while not memory.of_kind(OPERATIONS):
        first.step()
    (record,) = memory.of_kind(OPERATIONS)
    refused = asking_for_a_batch(memory, operationID="c", gpu=2)
    while not refused.done:
        refused.step()
    assert isinstance(refused.error, SpecConflict)
    assert memory.of_kind(OPERATIONS) == [record]
