"""What clients see of an object: never what a status says about an earlier spec."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from equipment.builders import an_operation
from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitPhase, GPUUnitSpec, GPUUnitStatus
from gpu_runtime.api.v1alpha1.serverless import Serverless, ServerlessStatus
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec, StockPoolStatus
from gpu_runtime.service.listing import Filter, list_page
from gpu_runtime.service.views import job_view, pool_view, unit_view
from unit.service.exploration.memory import Memory
from unit.service.replica import Replica

READY = [Condition.true("Ready", "UnitReady", "it runs", generation=1)]


def a_unit(*, generation: int = 1, phase: GPUUnitPhase | None = "Ready", name: str = "demo") -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(name=name, namespace="ns", generation=generation),
        spec=GPUUnitSpec(specName="g"),
        status=GPUUnitStatus(phase=phase, observedGeneration=1, conditions=READY) if phase else GPUUnitStatus(),
    )


def a_pool(*, generation: int = 1) -> StockPool:
    return StockPool(
        metadata=ObjectMeta(name="pool", namespace="ns", generation=generation),
        spec=StockPoolSpec(specName="g", replicas=1),
        status=StockPoolStatus(phase="Ready", observedGeneration=1, conditions=READY),
    )


def test_before_the_controller_spoke_the_phase_is_pending() -> None:
    unit = unit_view(a_unit(phase=None), "stock")
    assert (unit.phase, unit.reason) == ("Pending", "AwaitingController")
    pool = pool_view(replace(a_pool(), status=StockPoolStatus()))
    assert (pool.phase, pool.reason) == ("Pending", "AwaitingController")


def test_a_ready_unit_says_so_with_its_reason() -> None:
    view = unit_view(a_unit(), "stock")
    assert (view.phase, view.reason, view.message) == ("Ready", "UnitReady", "it runs")
    assert (view.generation, view.observedGeneration) == (1, 1)


def a_worker(*, generation: int = 1, enabled: bool = True) -> GPUUnit:
    unit = a_unit(generation=generation)
    takes = Condition.true("ServerlessReady", "UnitServerlessReady", "takes invocations of echo", generation=1)
    status = replace(unit.status, serverless=ServerlessStatus(phase="Ready"), conditions=[*READY, takes])
    serverless = Serverless(enabled=enabled, requestID="echo")
    return replace(unit, spec=replace(unit.spec, serverless=serverless), status=status)


@mutant("service/views.py", "and unit.status.observedGeneration >= unit.metadata.generation", "")
def test_a_worker_says_whether_it_takes_invocations_by_its_current_spec() -> None:
    seen = [a_worker(), a_worker(generation=2), a_worker(generation=2, enabled=False), a_unit()]
    views = [unit_view(unit, "stock").serverless for unit in seen]
    assert [(view.phase, view.reason) if view else None for view in views] == [
        ("Ready", "UnitServerlessReady"),
        ("Pending", ""),
        ("Disabled", ""),
        None,
    ]


@pytest.mark.parametrize("phase", ["Ready", "Failed"])
@mutant("service/views.py", "if status.observedGeneration < generation:", "if False:")
def test_after_a_change_nothing_is_said_of_the_old_spec(phase: GPUUnitPhase) -> None:
    view = unit_view(a_unit(generation=2, phase=phase), "stock")
    assert (view.phase, view.reason) == ("Progressing", "AwaitingController")
    assert "generation 2" in view.message
    assert (view.generation, view.observedGeneration) == (2, 1)


@mutant("service/views.py", "reported = reported_status(pool)", 'reported = ReportedStatus(status.phase or "", "", "")')
def test_a_pool_is_not_called_ready_before_its_new_spec_is() -> None:
    assert pool_view(a_pool()).phase == "Ready"
    view = pool_view(a_pool(generation=2))
    assert (view.phase, view.generation, view.observedGeneration) == ("Progressing", 2, 1)


@mutant("service/listing.py", "reported_status(obj).phase == wanted.phase", 'obj.status.phase or "" == wanted.phase')
def test_a_list_filters_by_the_phase_that_it_shows() -> None:
    units = [a_unit(name="ready"), a_unit(name="changed", generation=2), a_unit(name="new", phase=None)]

    def names(phase: str) -> list[str]:
        return list_page(units, Filter(phase=phase), lambda unit: unit.metadata.name, namespace="ns").items

    assert {phase: names(phase) for phase in ("Ready", "Progressing", "Pending", "Failed")} == {
        "Ready": ["ready"],
        "Progressing": ["changed"],
        "Pending": ["new"],
        "Failed": [],
    }


@pytest.mark.parametrize("count", [0, 1, 3, 4, 6])
@mutant("service/listing.py", "if len(found) > wanted.limit else", "if len(page) == wanted.limit else")
def test_a_page_has_a_token_only_when_another_follows(count: int) -> None:
    units = [a_unit(name=f"unit-{number}") for number in range(count)]
    shown, token = 0, ""
    for _ in range(count + 1):
        page = list_page(units, Filter(limit=3, token=token), lambda unit: unit.metadata.name, namespace="ns")
        assert page.items or not token, "a token that leads to an empty page"
        shown, token = shown + len(page.items), page.token
        if not token:
            break
    assert (shown, token) == (count, "")


@mutant("service/views.py", "deleted=deleted or operation.status.deletionTime is not None,", "deleted=deleted,")
def test_a_job_whose_record_says_that_nothing_is_left_of_it_says_deleted() -> None:
    record = an_operation("seed", "CreateStockUnits").status(phase="Succeeded").object()
    executor = Replica(Memory()).executors.of_batches
    assert not job_view(record, executor).deleted
    noticed = replace(record, status=replace(record.status, deletionTime=FakeClock().now()))
    assert job_view(noticed, executor).deleted
