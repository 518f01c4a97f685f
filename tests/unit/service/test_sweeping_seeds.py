"""What the sweeper and a resumed batch believe from a cache, and what only from the server."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.kube.store import Store
from gpu_runtime.service.cluster import GPU_UNITS, OPERATIONS
from gpu_runtime.service.envelope import ENVELOPE
from gpu_runtime.service.errors import SpecConflict
from gpu_runtime.service.sweeper import BY_OPERATION, by_operation
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Process
from unit.service.exploration.scene import PLATFORM, Scene
from unit.service.exploration.seeding import SeedingScene

DAY = 24 * 3600


def blind() -> Store[GPUUnit]:
    """A cache that has not heard of anything yet."""
    store = Store[GPUUnit]()
    store.index(BY_OPERATION, by_operation)
    return store


@mutant("service/sweeper.py", "if self._cached(record) or await self._lives(record):", "if self._cached(record):")
def test_the_job_of_a_unit_that_the_cache_does_not_know_yet_never_says_deleted() -> None:
    scene = Scene(lambda _: 0)
    executor = scene.processes[0]
    while not executor.done:
        executor.step()
    sweeper = scene.sweeper()
    sweeper._units = blind()
    scene.clock.advance(100 * DAY)
    for _ in range(2):
        finish(sweeper.retire())
    (record,) = scene.memory.of_kind(OPERATIONS)
    assert record.status.deletionTime is None


def test_the_record_of_stock_that_the_cache_does_not_know_yet_is_kept() -> None:
    scene = SeedingScene(Random(0))
    with capture_logs():
        scene.run("executor", scene.executor("b0"))
    _, _, sweeper = scene._replica()
    sweeper._units = blind()
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


@mutant("service/stock.py", "        if resumed:  # whoever", "        if False:  # whoever")
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
            labels={labels.SPEC_NAME: "g1", ENVELOPE: "another"},
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
    stock, _, _ = scene._replica()
    with pytest.raises(SpecConflict):
        finish(stock._seeding.check_live(records[0]))
