"""Sending a request again: the same unit, whatever became of quota, record and id meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.kube.errors import Forbidden
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.errors import AlreadyExists, Clash, InsufficientCapacity, OperationConflict
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockPool, CreateStockUnits
from gpu_runtime.rest.views import Job
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.service.stock.claim import holder
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process, Turn
from unit.service.replica import PLATFORM, Replica, a_world, key_of

T = TypeVar("T", bound=Object)


class WithQuota(Memory):
    """An API server with a quota on the number of objects, which answers before it looks at the name."""

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[tuple[str, str], int] = {}

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        assert not isinstance(obj, Mapping)
        await Turn(f"create {resource.kind} {obj.metadata.name}")
        where = (resource.kind, obj.metadata.namespace)
        there = sum((kind, key.namespace) == where for kind, key in self.objects)
        if there >= self.most.get(where, there + 1):
            raise Forbidden(403, "Forbidden", "exceeded quota: units", causes=[], retry_after=None)
        return self.put(resource, obj)


UNITS = (GPU_UNITS.kind, PLATFORM.instance_namespace)
RECORDS = (OPERATIONS.kind, PLATFORM.system_namespace)


def stopped_before(memory: Memory, what: str, **body: Any) -> Process:
    """An executor that stands still before the named call."""
    executor = Process("first", lambda: Replica(memory).listen().create_later(**body))
    while not executor.next.startswith(what):
        executor.step()
        assert not executor.done, executor.error
    return executor


def units_of_users(memory: Memory) -> list[str]:
    units = (unit.metadata for unit in memory.of_kind(GPU_UNITS))
    return [meta.name for meta in units if meta.namespace != PLATFORM.stock_namespace]


def run_on(executor: Process) -> None:
    while not executor.done:
        executor.step()


@mutant("service/units/handover.py", "if unit is not None and made_by(unit.metadata, state.record):", "if False:")
def test_a_replay_under_a_quota_that_the_unit_itself_fills_is_answered_with_the_unit() -> None:
    memory = WithQuota()
    a_world(memory)
    memory.most[UNITS] = 1
    stopped_before(memory, "replace Operation")  # the unit is there; its executor is dead
    view, new = Replica(memory).listen().create()
    assert (view.name, new) == ("demo", False)
    assert [holder(unit) for unit in memory.of_kind(GPU_UNITS) if unit.metadata.namespace == "runtime-stock"] == [""]


@mutant("service/units/handover.py", "if unit is not None and made_by(unit.metadata, state.record):", "if False:")
def test_a_second_executor_under_a_full_quota_does_not_undo_the_first() -> None:
    memory = WithQuota()
    a_world(memory)
    memory.most[UNITS] = 1
    first = stopped_before(memory, "replace Operation")
    Replica(memory).listen().create()
    run_on(first)
    assert first.error is None
    assert first.result[0].name == "demo"
    assert len(memory.of_kind(OPERATIONS)) == 1


def test_an_inert_leftover_that_fills_the_quota_is_removed_and_made_anew() -> None:
    memory = WithQuota()
    a_world(memory)
    memory.most[UNITS] = 1
    stopped_before(memory, "replace Operation")
    (record,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, record.metadata.key))  # its record was swept, its unit not yet
    view, new = Replica(memory).listen().create()
    assert (view.name, new) == ("demo", True)
    assert (
        memory.objects[GPU_UNITS.kind, key_of("demo")].metadata.annotations[notes.OPERATION_UID] != record.metadata.uid
    )


def test_a_quota_that_another_unit_fills_is_a_lack_of_capacity_and_leaves_nothing() -> None:
    memory = WithQuota()
    a_world(memory)
    memory.most[UNITS] = 0
    with pytest.raises(InsufficientCapacity, match="exceeded quota"):
        Replica(memory).listen().create()
    assert not memory.of_kind(OPERATIONS)
    assert not any(holder(unit) for unit in memory.of_kind(GPU_UNITS))


@mutant("service/operations/records.py", "if existing is None:  # else", "if True:  # else")
def test_a_replay_is_answered_when_its_own_record_fills_the_quota_of_records() -> None:
    memory = WithQuota()
    a_world(memory)
    memory.most[RECORDS] = 1
    first, _ = Replica(memory).listen().create()
    memory.objects.pop((GPU_UNITS.kind, key_of("demo")))
    view, new = Replica(memory).listen().create()
    assert (view.name, view.deleted, new) == (first.name, True, False)


def test_a_replay_is_never_answered_with_the_unit_of_another_payload_that_took_the_id_over() -> None:
    """The first executor dies; while the replay waits, the id is given up and used for another request."""
    memory = a_world(Memory())
    stopped_before(memory, "create GPUUnit")
    replay, other = Replica(memory).listen(), Replica(memory, pick=1).listen()

    async def taken_over() -> None:
        (record,) = memory.of_kind(OPERATIONS)
        await other.handover.give_up(record, "service_unavailable", "abandoned")
        await other.create_later(name="another", image="b")

    replay.waiting.meanwhile = taken_over
    with pytest.raises(OperationConflict):
        replay.create()
    assert units_of_users(memory) == ["another"]


@mutant("service/units/unit_executor.py", "            check_same(current, record.spec.requestHash)\n", "")
def test_a_replay_does_not_follow_the_unfinished_record_of_another_payload_that_took_the_id_over() -> None:
    memory = a_world(Memory())
    stopped_before(memory, "create GPUUnit")
    replay = Replica(memory).listen()

    async def taken_over() -> None:
        (record,) = memory.of_kind(OPERATIONS)
        await replay.handover.give_up(record, "service_unavailable", "abandoned")
        stopped_before(memory, "create GPUUnit", name="another", image="b")

    replay.waiting.meanwhile = taken_over
    with pytest.raises(OperationConflict):
        replay.create()
    assert units_of_users(memory) == []


@mutant("service/operations/flow.py", "            check_same(done.record, wanted.request_hash)", "            pass")
def test_the_replay_of_a_batch_is_never_answered_with_the_job_of_another_payload_that_took_the_id_over() -> None:
    memory = a_world(Memory(), stock=0)
    first, replay = Replica(memory).listen(), Replica(memory).listen()

    def seed(replica: Replica, replicas: int) -> Awaitable[tuple[Job, bool]]:
        sent = {"operationID": "s", "specName": "g1", "memory": "1Gi", "gpu": 1, "replicas": replicas}
        return replica.executors.stock.seed(parse(CreateStockUnits, sent), sent)

    async def taken_over() -> None:
        (record,) = memory.of_kind(OPERATIONS)
        await memory.delete(OPERATIONS, record.metadata.key)
        await seed(first, 2)

    finish(seed(first, 1))
    replay.waiting.meanwhile = taken_over
    with pytest.raises(OperationConflict):
        finish(seed(replay, 1))


@mutant("service/units/handover.py", "if current.spec.requestHash != known.spec.requestHash:", "if False:")
def test_an_executor_that_wakes_up_late_does_not_follow_the_record_of_another_payload() -> None:
    memory = a_world(Memory())
    late = stopped_before(memory, "replace Operation")
    (record,) = memory.of_kind(OPERATIONS)
    finish(Replica(memory).handover.give_up(record, "service_unavailable", "abandoned"))
    stopped_before(memory, "create GPUUnit", name="another", image="b")
    run_on(late)
    assert isinstance(late.error, OperationConflict)
    assert units_of_users(memory) == []


def test_a_record_that_is_gone_when_the_replay_looks_again_means_begin_anew() -> None:
    memory = a_world(Memory())
    stopped_before(memory, "create GPUUnit")
    replay = Replica(memory).listen()

    async def given_up() -> None:
        (record,) = memory.of_kind(OPERATIONS)
        await replay.handover.give_up(record, "service_unavailable", "abandoned")

    replay.waiting.meanwhile = given_up
    view, new = replay.create()
    assert (view.name, new) == ("demo", True)


@mutant("service/units/handover.py", "            cpu=stock.spec.cpu,\n", "")
def test_a_unit_keeps_all_that_its_stock_held() -> None:
    memory = a_world(Memory())
    view, _ = Replica(memory).listen().create()
    assert (view.cpu, view.memory, view.gpu) == ("2", "1Gi", 1)


@mutant("service/units/handover.py", "if UnitSize.of(unit.spec) != UnitSize.of(wanted.spec):", "if False:")
def test_a_unit_that_a_dead_executor_made_in_another_size_is_never_handed_over() -> None:
    memory = a_world(Memory())
    stopped_before(memory, "replace Operation")  # the unit has the size of stock-0
    first, second = memory.of_kind(GPU_UNITS)[:2]
    finish(memory.delete(GPU_UNITS, first.metadata.key))
    memory._write(GPU_UNITS, replace(second, spec=replace(second.spec, cpu="4")), second.metadata)
    with pytest.raises(Clash, match="changed its size"):
        Replica(memory).listen().create()
    view, new = Replica(memory).listen().create()
    assert (view.cpu, view.sourceStockName, new) == ("4", "stock-1", True)


@mutant("service/stock/picker.py", "            nodeName=unit.status.nodeName or None,\n", "")
@mutant(
    "api/v1alpha1/provenance.py",
    "return notes | ({SOURCE_STOCK_NODE: choice.nodeName} if choice.nodeName else {})",
    "return notes",
)
def test_a_hand_over_that_another_finishes_keeps_the_node_of_its_stock() -> None:
    memory = a_world(Memory())
    stopped_before(memory, "patch GPUUnit demo")  # committed, not admitted
    Replica(memory).listen().create()
    unit = memory.objects[GPU_UNITS.kind, key_of("demo")]
    assert unit.metadata.annotations[notes.SOURCE_STOCK_NODE] == "node-1"


@mutant(
    "service/units/handover.py",
    "{**identity(unit.metadata), ",
    "{",
)
def test_a_late_admission_never_touches_another_unit_of_that_name() -> None:
    memory = a_world(Memory())
    late = stopped_before(memory, "patch GPUUnit demo")
    finish(memory.delete(GPU_UNITS, key_of("demo")))
    foreign = Replica(memory).listen()
    foreign.create(operationID="other", image="b")
    before = memory.objects[GPU_UNITS.kind, key_of("demo")]
    run_on(late)
    assert memory.objects[GPU_UNITS.kind, key_of("demo")] == before
    assert late.result[0].deleted is True


@mutant("service/units/unit_executor.py", "if annotations.get(notes.REQUEST_HASH) == request_hash:", "if True:")
def test_after_its_record_is_gone_a_unit_still_answers_only_the_payload_that_made_it() -> None:
    memory = a_world(Memory())
    Replica(memory).listen().create()
    (record,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, record.metadata.key))
    with pytest.raises(AlreadyExists):
        Replica(memory).listen().create(image="b")
    view, new = Replica(memory).listen().create()
    assert (view.name, new) == ("demo", False)


@mutant(
    "service/stock/claim.py",
    "            except Conflict:  # a status was written in between; only the claim matters\n"
    "                stock = await self.read(choice)",
    "            except Conflict:\n                return None",
)
def test_stock_whose_status_was_written_during_the_hand_over_is_consumed_all_the_same() -> None:
    memory = a_world(Memory(), stock=1)
    executor = stopped_before(memory, "delete GPUUnit stock-0")
    (stock,) = [unit for unit in memory.of_kind(GPU_UNITS) if unit.metadata.namespace == PLATFORM.stock_namespace]
    finish(memory.replace(GPU_UNITS, replace(stock, status=replace(stock.status, readyReplicas=1))))
    run_on(executor)
    assert [unit.metadata.name for unit in memory.of_kind(GPU_UNITS)] == ["demo"]


@mutant(
    "service/stock/claim.py",
    "while stock is not None and stock.metadata.deletionTimestamp is None:\n            if holder",
    "while stock is not None:\n            if holder",
)
def test_stock_that_is_being_deleted_unknown_to_the_cache_is_left_alone_and_another_is_taken() -> None:
    memory = a_world(Memory(), stock=2)
    replica = Replica(memory).listen()
    going = memory.of_kind(GPU_UNITS)[0]
    marked = replace(going.metadata, deletionTimestamp=replica.clock.now())
    finish(memory.replace(GPU_UNITS, replace(going, metadata=marked)))
    view, _ = replica.create()
    assert view.sourceStockName == "stock-1"
    assert not holder(memory.objects[GPU_UNITS.kind, going.metadata.key])


@mutant(
    "service/operations/object_executor.py",
    "if meta.annotations.get(notes.OPERATION_UID) == record.metadata.uid:",
    "if True:",
)
def test_an_executor_whose_record_is_gone_leaves_the_pool_that_the_next_record_took_over() -> None:
    memory = a_world(Memory())
    sent = {"operationID": "p", "specName": "g1", "replicas": 0, "namespace": PLATFORM.instance_namespace}
    request = parse(CreateStockPool, sent)
    late = Process("late", lambda: Replica(memory).listen().pools.create(request, sent))
    while not late.next.startswith("replace Operation"):
        late.step()
        assert not late.done, late.error
    (record,) = memory.of_kind(OPERATIONS)
    finish(memory.delete(OPERATIONS, record.metadata.key))
    job, _ = finish(Replica(memory).listen().pools.create(request, sent))
    (pool,) = memory.of_kind(STOCK_POOLS)
    run_on(late)
    assert job.status == "succeeded"
    assert [each.metadata.uid for each in memory.of_kind(STOCK_POOLS)] == [pool.metadata.uid]
