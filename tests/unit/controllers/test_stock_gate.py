"""What seeded stock is by its record, and what its status remembers of that."""

from __future__ import annotations

import pytest

from equipment.builders import a_stock_unit, an_operation
from equipment.builders.product import OperationBuilder
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import BATCH, OPERATION_UID, STOCK_ORDINAL
from gpu_runtime.api.v1alpha1.labels import OPERATION
from gpu_runtime.controllers.gpuunit.admission import Refuse, Remove, Wait
from gpu_runtime.controllers.gpuunit.readiness import Observed, status
from gpu_runtime.controllers.gpuunit.stock_gate import Listed, is_gated, listing
from gpu_runtime.controllers.readiness import Readiness

UNIT = a_stock_unit("batch-002").with_uid("mine").annotated({OPERATION_UID: "op", STOCK_ORDINAL: "2"})
UNIT = UNIT.labelled({OPERATION: "record"})
READY, PROGRESSING = Readiness("ready", "UnitReady", ""), Readiness("progressing", "UnitProgressing", "")


def a_record(phase: str, *units: str) -> OperationBuilder:
    record = an_operation("seed", "CreateStockUnits").annotated({BATCH: "runtime-stock/batch"})
    return record.status(phase=phase, units=list(units))


CASES = {
    "listed": (a_record("Pending", "other", "mine"), Listed),
    "listed in a finished record": (a_record("Succeeded", "other", "mine"), Listed),
    "listed in a failed record": (a_record("Failed", "", "mine"), Listed),
    "not listed yet": (a_record("Pending", "other", ""), Wait),
    "beyond what is listed yet": (a_record("Pending", "other"), Wait),
    "nothing is listed yet": (a_record("Pending"), Wait),
    "a failed batch may be taken up again": (a_record("Failed", "other"), Wait),
    "another unit is listed": (a_record("Pending", "", "other"), Remove),
    "the batch ended without it": (a_record("Succeeded", "other"), Remove),
    "the record is of an earlier version": (a_record("Succeeded"), Listed),
    "the record is gone": (None, Remove),
}


@pytest.mark.parametrize(("record", "want"), CASES.values(), ids=CASES)
def test_the_record_decides(record: OperationBuilder | None, want: type) -> None:
    assert isinstance(listing(UNIT.object(), record.object() if record else None), want)


def test_a_copy_under_another_name_is_not_touched() -> None:
    copy = UNIT.metadata(name="copy").object()
    assert isinstance(listing(copy, a_record("Succeeded", "a", "b").object()), Refuse)


def test_stock_made_by_hand_and_stock_that_was_ready_before_are_not_held_back() -> None:
    assert is_gated(UNIT.object())
    assert not is_gated(a_stock_unit("by-hand").object())
    assert not is_gated(UNIT.ready().object())
    assert not is_gated(UNIT.status(phase="Progressing", listed=True).object())


@mutant(
    "controllers/gpuunit/readiness.py",
    "before.listed or (seen.listed and before.phase != PHASES[outcome.state])",
    "seen.listed",
)
def test_stock_of_an_earlier_version_is_remembered_as_listed_only_with_a_write_that_is_due_anyway() -> None:
    earlier = UNIT.ready().object()
    assert not status(Observed(earlier, listed=True), READY).listed
    assert status(Observed(earlier, listed=True), PROGRESSING).listed


def test_what_was_seen_listed_is_never_forgotten() -> None:
    assert status(Observed(UNIT.status(listed=True).object()), PROGRESSING).listed
    assert not status(Observed(UNIT.object()), PROGRESSING).listed
