"""What the sweeper and a resumed batch believe from a cache, and what only from the server."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.kube.decoding import Page, Skipped
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import SpecConflict
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateStockUnits
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.sweeper import Idle
from gpu_runtime.service.stock.batch_executor import BY_OPERATION, by_operation
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.stock.unit_size import UNIT_SIZE
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.exploration.scene import PLATFORM, Scene
from unit.service.exploration.seeding import SeedingScene
from unit.service.replica import Replica, a_world

DAY = 24 * 3600


def blind() -> Store[GPUUnit]:
    """A cache that has not heard of anything yet."""
    store = Store[GPUUnit]()
    store.index(BY_OPERATION, by_operation)
    return store


@mutant(
    "service/operations/executor.py",
    "return await reader.has(Key(made.namespace, made.name), made.uid)",
    "return reader.cached(Key(made.namespace, made.name)) is not None",
)
def test_the_job_of_a_unit_that_the_cache_does_not_know_yet_never_says_deleted() -> None:
    scene = Scene(lambda _: 0)
    executor = scene.processes[0]
    while not executor.done:
        executor.step()
    sweeper = scene.sweeper(blind())
    scene.clock.advance(100 * DAY)
    for _ in range(2):
        finish(sweeper.retire())
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime is None


def test_the_record_of_stock_that_the_cache_does_not_know_yet_is_kept() -> None:
    scene = SeedingScene(Random(0))
    with capture_logs():
        scene.run("executor", scene.executor("b0"))
    _, sweeper = scene._replica(blind())
    scene.clock.advance(100 * DAY)
    finish(sweeper.retire())
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime is None
    for unit in scene.memory.of_kind(GPU_UNITS):
        finish(scene.memory.delete(GPU_UNITS, unit.metadata.key))
    finish(sweeper.retire())
    scene.clock.advance(PLATFORM.retention_seconds)
    finish(sweeper.retire())
    assert not scene.memory.of_kind(OPERATIONS)


@mutant("service/stock/batch_executor.py", "return bool(page.items or page.skipped)", "return bool(page.items)")
def test_the_record_of_stock_that_cannot_be_read_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SeedingScene(Random(0))
    with capture_logs():
        scene.run("executor", scene.executor("b0"))
    _, sweeper = scene._replica(blind())
    readable = scene.memory.page

    async def page(query: Any, **options: Any) -> Page[Any]:
        found = await readable(query, **options)
        if query.resource is not GPU_UNITS:
            return found
        skipped = [Skipped(each.metadata.key, each.metadata.resourceVersion, "no number") for each in found.items]
        return Page([], skipped, found.resource_version, None)

    monkeypatch.setattr(scene.memory, "page", page)
    finish(sweeper.retire())
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime is None


@mutant("service/operations/sweeper.py", "        if version != meta.resourceVersion:\n            since = now\n", "")
def test_what_moves_is_not_idle_however_long_it_is_there() -> None:
    clock = FakeClock()
    idle = Idle(clock)
    first = a_world(Memory(), stock=1).of_kind(GPU_UNITS)[0]
    moved = replace(first, metadata=replace(first.metadata, resourceVersion="99"))
    assert idle.seconds(first) == 0
    clock.advance(5)
    assert idle.seconds(first) == 5
    assert idle.seconds(moved) == 0
    clock.advance(3)
    assert idle.seconds(moved) == 3


@mutant(
    "service/stock/seeding.py",
    "if unit.metadata.deletionTimestamp is None and UnitSize.of(unit.spec) != wanted:",
    "if UnitSize.of(unit.spec) != wanted:",
)
def test_stock_that_is_being_deleted_does_not_reserve_its_spec_name() -> None:
    memory = a_world(Memory(), stock=1)
    replica = Replica(memory).listen()
    seeding = Seeding(memory, replica.operations, replica.picker, PLATFORM.stock_namespace)
    request = parse(CreateStockUnits, {"operationID": "s", "specName": "g1", "memory": "2Gi", "gpu": 1, "replicas": 1})
    with pytest.raises(SpecConflict):
        finish(seeding.check_known(request))
    (unit,) = memory.of_kind(GPU_UNITS)
    memory._write(GPU_UNITS, unit, replace(unit.metadata, deletionTimestamp=replica.clock.now()))
    finish(seeding.check_known(request))


@mutant("service/stock/seeding.py", "        if resumed:  # the process", "        if False:  # the process")
def test_a_batch_whose_process_died_before_it_compared_sizes_is_refused_when_another_takes_it_up() -> None:
    scene = SeedingScene(Random(0))
    executor = Process("first", scene.executor("b0"))
    while not scene.memory.of_kind(OPERATIONS):
        executor.step()
    executor.stop()
    other_size = GPUUnit(
        metadata=ObjectMeta(
            name="rival",
            namespace=PLATFORM.stock_namespace,
            labels={labels.SPEC_NAME: "g1", UNIT_SIZE: "another"},
        ),
        spec=GPUUnitSpec(specName="g1", memory="2Gi", gpu=1),
    )
    scene.memory.put(GPU_UNITS, other_size)
    with capture_logs():
        scene.run("sweeper", scene.sweeper)
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert record.status.phase == "Failed"
    assert record.status.error is not None
    assert record.status.error.code == "spec_conflict"
    assert len(scene.memory.of_kind(GPU_UNITS)) == 1


@mutant("service/paging.py", "        token = page.token\n", "        token = None\n")
def test_a_rival_beyond_the_first_page_of_unfinished_operations_is_seen() -> None:
    scene = SeedingScene(Random(0), batches=3)
    for batch in scene.sizes:
        before = len(scene.memory.of_kind(OPERATIONS))
        executor = Process(batch, scene.executor(batch))
        while len(scene.memory.of_kind(OPERATIONS)) == before:
            executor.step()
        executor.stop()
    records = sorted(scene.memory.of_kind(OPERATIONS), key=lambda record: record.metadata.name)
    last = records[-1]
    rival = {**last.spec.request, "memory": "2Gi"}
    finish(scene.memory.replace(OPERATIONS, replace(last, spec=replace(last.spec, request=rival))))
    scene.memory.page_size = 1
    replica, _ = scene._replica()
    with pytest.raises(SpecConflict):
        finish(replica.stock._seeding.check_live(records[0]))


@mutant("service/stock/unit_list.py", "== record.metadata.uid or seen_listed(unit):", "== record.metadata.uid:")
def test_stock_that_was_listed_under_a_lost_record_is_taken_over_by_the_next_and_never_removed() -> None:
    scene = SeedingScene(Random(0))
    with capture_logs():
        scene.run("first", scene.executor("b0"))
        for unit in scene.memory.of_kind(GPU_UNITS):
            finish(scene.memory.replace(GPU_UNITS, replace(unit, status=replace(unit.status, listed=True))))
        before = [unit.metadata.uid for unit in scene.memory.of_kind(GPU_UNITS)]
        (lost,) = scene.memory.of_kind(OPERATIONS)
        finish(scene.memory.delete(OPERATIONS, lost.metadata.key))
        scene.run("again", scene.executor("b0"))
    assert [unit.metadata.uid for unit in scene.memory.of_kind(GPU_UNITS)] == before
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert (record.status.phase, sorted(record.status.units)) == ("Succeeded", sorted(before))


@mutant(
    "service/stock/unit_list.py",
    '        if unit.metadata.deletionTimestamp is not None:\n            return ""\n',
    "",
)
def test_a_unit_that_is_being_deleted_is_never_listed_as_stock_of_its_batch() -> None:
    scene = SeedingScene(Random(0))
    with capture_logs():
        scene.run("executor", scene.executor("b0"))
    (record,), unit = scene.memory.of_kind(OPERATIONS), scene.memory.of_kind(GPU_UNITS)[0]
    replica, _ = scene._replica()
    adopt = replica.stock._seeding.unit_list.adopt
    assert finish(adopt(record, unit.metadata.key)) == unit.metadata.uid
    going = replace(unit.metadata, deletionTimestamp=scene.clock.now())
    finish(scene.memory.replace(GPU_UNITS, replace(unit, metadata=going)))
    assert finish(adopt(record, unit.metadata.key)) == ""
