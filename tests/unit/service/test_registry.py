"""A fourth type of operation: its executor and its place in the registry are all that sweeper, jobs and views need."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation, OperationType
from gpu_runtime.kube.decoding import Page
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import Missing, OperationConflict
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.views import JobType
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.executor import AnyExecutor, Done, Executor, HeldObject, object_lives
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.operations.jobs import Jobs
from gpu_runtime.service.operations.records import UNFINISHED, NewOperation, operation_metadata, unfinished
from gpu_runtime.service.operations.registry import Registry
from gpu_runtime.service.operations.sweeper import Sweeper
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.stock.claim import CLAIMED_FOR, holder
from gpu_runtime.service.views import job_view
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import PLATFORM, Replica, a_world, key_of

DAY = 24 * 3600
TOY = cast(OperationType, "CreateToy")
TOY_JOB = cast(JobType, "create_toy")


class CreateToy(Struct, frozen=True, kw_only=True):
    operationID: str
    name: str


SENT = {"operationID": "t", "name": "toy"}


class ToyExecutor(Executor[CreateToy, Done]):
    """Makes one object, here a unit, and holds another."""

    operation_type = TOY
    job_type = TOY_JOB
    request_type = CreateToy

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica.operations)
        self._cluster = replica.memory
        self._reader = Reader(replica.memory, GPU_UNITS, replica.unit_cache)
        self.undone: list[str] = []
        self.completed: list[str] = []
        self.judged: list[str] = []

    def check(self, request: CreateToy) -> None:
        PLATFORM.allow(PLATFORM.instance_namespace)

    async def begin(self, wanted: NewOperation, request: CreateToy) -> tuple[Operation, bool]:
        where = ObjectReference(kind="GPUUnit", namespace=PLATFORM.instance_namespace, name=request.name)
        return await self._operations.begin(wanted, makes=where)

    async def execute(self, record: Operation) -> Done:
        wanted = ObjectMeta(name=self.object_key(record).name, namespace=self.object_key(record).namespace)
        labels, annotations = operation_metadata(record)
        meta = replace(wanted, labels=labels, annotations=annotations)
        unit = await self._cluster.create(GPU_UNITS, GPUUnit(metadata=meta, spec=GPUUnitSpec(specName="toy")))
        made = replace(record.status.objects[0], uid=unit.metadata.uid)
        return Done(await self._operations.succeed(record, objects=[made]))

    async def replay(self, record: Operation) -> Done:
        return await self.execute(record) if unfinished(record) else Done(record)

    async def resume(self, record: Operation) -> None:
        await self.execute(record)

    async def complete(self, record: Operation) -> None:
        self.completed.append(record.metadata.name)

    async def undo(self, record: Operation) -> None:
        self.undone.append(record.metadata.name)
        await self._operations.remove(record)

    def held(self) -> list[HeldObject]:
        async def judge() -> None:
            self.judged.append("stock-0")

        return [HeldObject(unit, judge) for unit in self._reader.store if unit.metadata.name == "stock-0"]

    async def lives(self, record: Operation) -> bool:
        return await object_lives(record, self._reader)


class World:
    """A process with four types of operation. `known=False`: the same process without the toy."""

    def __init__(
        self, *, known: bool = True, toy: type[ToyExecutor] = ToyExecutor, memory: Memory | None = None
    ) -> None:
        self.memory = a_world(memory or Memory())
        self.replica = Replica(self.memory).listen()
        self.toy = toy(self.replica)
        self.registry = Registry([*self.replica.executors.registry, *([self.toy] if known else [])])
        self.jobs = Jobs(self.memory, self.replica.operations, self.registry)
        self.unfinished = Store[Operation]()
        self.sweeper = Sweeper(
            self.memory, self.replica.operations, PLATFORM, self.registry, self.unfinished, clock=self.replica.clock
        )

    @property
    def record(self) -> Operation:
        (record,) = self.memory.of_kind(OPERATIONS)
        return record

    def ask(self, **changes: str) -> tuple[Done, bool]:
        sent: dict[str, Any] = {**SENT, **changes}
        return finish(carry_out(self.toy, parse(CreateToy, sent), sent, ""))

    def abandon(self) -> None:
        """A record that its process wrote before it died."""
        executor = Process("first", lambda: carry_out(self.toy, parse(CreateToy, SENT), SENT, ""))
        while not self.memory.of_kind(OPERATIONS):
            executor.step()
        executor.stop()

    def sweep(self) -> None:
        labelled = [each for each in self.memory.of_kind(OPERATIONS) if UNFINISHED in each.metadata.labels]
        self.unfinished.replace(labelled, "1")
        finish(self.sweeper.sweep())

    def retire(self) -> None:
        finish(self.sweeper.retire())


def test_a_request_of_the_new_type_is_carried_out_once_and_compared_with_its_replays() -> None:
    world = World()
    first, new = world.ask()
    assert (first.record.status.phase, new) == ("Succeeded", True)
    assert world.ask() == (first, False)
    with pytest.raises(OperationConflict):
        world.ask(name="another")
    assert [unit.metadata.name for unit in world.memory.of_kind(GPU_UNITS) if unit.spec.specName == "toy"] == ["toy"]


def test_the_sweeper_takes_up_an_abandoned_operation_of_the_new_type() -> None:
    world = World()
    world.abandon()
    world.sweep()
    assert world.record.status.phase == "Succeeded"
    made = world.memory.objects[GPU_UNITS.kind, key_of("toy")]
    assert made.metadata.annotations[notes.OPERATION_UID] == world.record.metadata.uid


@mutant("service/operations/sweeper.py", "                await executor.undo(record)\n", "                return\n")
def test_the_sweeper_undoes_a_failed_operation_of_the_new_type() -> None:
    world = World()
    world.abandon()
    name = world.record.metadata.name
    finish(world.replica.operations.fail(world.record, "internal", "broken", settled=False))
    world.sweep()
    assert (world.toy.undone, world.memory.of_kind(OPERATIONS)) == ([name], [])


@mutant(
    "service/operations/sweeper.py", "                await executor.complete(record)\n", "                return\n"
)
def test_the_sweeper_completes_a_committed_operation_of_the_new_type_that_still_looks_unfinished() -> None:
    world = World()
    world.abandon()
    committed = replace(world.record, status=replace(world.record.status, phase="Succeeded"))
    finish(world.memory.replace(OPERATIONS, committed))
    world.sweep()
    assert world.toy.completed == [committed.metadata.name]


def test_the_sweeper_judges_what_operations_of_the_new_type_hold_once_it_has_not_moved_for_long() -> None:
    world = World()
    finish(world.sweeper.sweep(older_than=30))
    assert world.toy.judged == []
    world.replica.clock.advance(30)
    finish(world.sweeper.sweep(older_than=30))
    assert world.toy.judged == ["stock-0"]


@mutant("service/units/unit_executor.py", "record.spec.type != self.operation_type", "False")
def test_stock_that_an_operation_of_the_new_type_claimed_is_left_to_its_executor() -> None:
    world = World()
    world.abandon()
    stock = world.memory.of_kind(GPU_UNITS)[0]
    claim = {notes.CLAIMED_BY: world.record.metadata.uid, CLAIMED_FOR: world.record.metadata.name}
    finish(world.memory.patch(GPU_UNITS, stock.metadata.key, {"metadata": {"annotations": claim}}))
    world.replica.listen()
    world.sweep()
    assert holder(world.memory.of_kind(GPU_UNITS)[0]) == world.record.metadata.uid


def test_the_record_of_the_new_type_is_kept_while_its_object_lives_and_a_day_longer() -> None:
    world = World()
    world.ask()
    world.replica.clock.advance(100 * DAY)
    world.retire()
    assert world.record.status.deletionTime is None
    finish(world.memory.delete(GPU_UNITS, key_of("toy")))
    world.retire()
    assert world.record.status.deletionTime == world.replica.clock.now()
    world.replica.clock.advance(DAY)
    world.retire()
    assert world.memory.of_kind(OPERATIONS) == []


def test_jobs_find_and_list_the_new_type() -> None:
    world = World()
    world.ask()
    job = finish(world.jobs.get("t"))
    assert (job.type, job.status, job.objectName, job.deleted) == (TOY_JOB, "succeeded", "toy", False)
    assert finish(world.jobs.get("t", TOY_JOB)) == job
    with pytest.raises(Missing):
        finish(world.jobs.get("t", "create_gpu_unit"))
    assert finish(world.jobs.list(limit=10, token="")).items == [job]
    finish(world.memory.delete(GPU_UNITS, key_of("toy")))
    assert finish(world.jobs.get("t")).deleted


@mutant("service/operations/executor.py", 'record.status.phase == "Succeeded" and bool(', "bool(")
def test_the_job_of_an_operation_that_has_made_nothing_yet_is_not_called_deleted() -> None:
    world = World()
    world.abandon()
    assert not finish(world.jobs.get("t")).deleted


def test_a_view_names_the_new_type_and_what_it_makes() -> None:
    world = World()
    world.abandon()
    executor = world.registry.of(world.record)
    assert executor is world.toy
    job = job_view(world.record, executor)
    assert (job.type, job.status, job.objectNamespace) == (TOY_JOB, "pending", PLATFORM.instance_namespace)


def test_a_record_of_a_type_that_this_version_does_not_know_is_reported_and_left_alone() -> None:
    world = World(known=False)
    world.abandon()
    before = world.record
    with capture_logs() as said:
        world.sweep()
        world.replica.clock.advance(100 * DAY)
        world.retire()
        assert finish(world.jobs.list(limit=10, token="")).items == []
    assert world.record == before
    assert {(entry["log_level"], entry["type"]) for entry in said} == {("warning", TOY)}


def test_on_the_wire_a_record_of_an_unknown_type_is_skipped_and_hides_no_other() -> None:
    world = World()
    world.abandon()
    known = replace(world.record, spec=replace(world.record.spec, type="CreateGPUUnit"))
    page = Page.decode(OPERATIONS, msgspec.json.encode({"metadata": {}, "items": [world.record, known]}))
    assert page.items == [known]
    assert [skipped.key for skipped in page.skipped] == [world.record.metadata.key]


def test_a_finished_record_of_an_unknown_type_is_never_retired() -> None:
    world = World(known=False)
    world.ask()
    finish(world.memory.delete(GPU_UNITS, key_of("toy")))
    world.replica.clock.advance(100 * DAY)
    before = world.record
    with capture_logs():
        world.retire()
    assert world.record == before


def test_a_type_without_an_executor_keeps_the_process_from_starting() -> None:
    executors = [*Replica(Memory()).executors.registry]
    for missing in executors:
        rest = [each for each in executors if each is not missing]
        with pytest.raises(ValueError, match=missing.operation_type):
            Registry(rest)


def test_two_executors_of_one_type_keep_the_process_from_starting() -> None:
    executors: list[AnyExecutor] = [*Replica(Memory()).executors.registry]
    with pytest.raises(ValueError, match="two executors"):
        Registry([*executors, executors[0]])
