"""The record of its operation decides what becomes of an inert unit."""

from __future__ import annotations

import pytest

from equipment.builders import a_stock_unit, a_unit, an_operation
from equipment.builders.product import OperationBuilder
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_NODE, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.operation import StockChoice
from gpu_runtime.api.v1alpha1.provenance import is_inert, provenance, source_of
from gpu_runtime.controllers.gpuunit.admission import Admit, Refuse, Remove, Wait, admission

STOCK = a_stock_unit("stock-1").with_uid("stock-uid")
MINE = an_operation("op-1").with_uid("op-uid").choosing(STOCK)
RECORD = "gpu-runtime-system/creategpuunit-op-1"
CHOICE = StockChoice(namespace="runtime-stock", name="stock-1", uid="stock-uid")

CASES: dict[str, tuple[OperationBuilder | None, object]] = {
    "pending": (MINE, Wait(f"operation {RECORD} has not handed over its stock yet")),
    "running": (MINE.status(phase="Running"), Wait(f"operation {RECORD} has not handed over its stock yet")),
    "committed": (MINE.committed(), Admit(CHOICE)),
    "failed": (MINE.failed(), Remove(f"its operation {RECORD} failed")),
    "gone": (None, Remove("its operation op-uid is gone")),
    "another's": (MINE.committed().with_uid("other"), Remove("its operation op-uid is gone")),
    "kept in a namespace that nobody told us of": (MINE.committed().in_namespace("elsewhere"), Admit(CHOICE)),
    "committed without stock": (
        an_operation("op-1").with_uid("op-uid").committed(),
        Refuse(f"operation {RECORD} made it and consumed no stock"),
    ),
    "one that seeded stock": (
        an_operation("op-1", "CreateStockUnits").with_uid("op-uid").committed(),
        Refuse(
            "operation gpu-runtime-system/createstockunits-op-1 (CreateStockUnits) made it: "
            "is runtime-instance a stock namespace?"
        ),
    ),
}


@pytest.mark.parametrize(("operation", "want"), CASES.values(), ids=CASES)
def test_an_inert_unit_whose_operation_is(operation: OperationBuilder | None, want: object) -> None:
    unit = a_unit("u").made_by(MINE).object()
    other = MINE.committed().with_uid("of another time").object()
    assert admission(unit, [other, *([operation.object()] if operation else [])]) == want


def test_only_a_unit_that_an_operation_made_and_nobody_admitted_is_inert() -> None:
    assert not is_inert(a_unit("u").object())
    assert is_inert(a_unit("u").made_by(MINE).object())
    assert not is_inert(a_unit("u").made_by(MINE).consuming(STOCK).object())


def test_what_admission_writes_is_what_the_unit_is_then_said_to_come_from() -> None:
    notes = provenance(StockChoice(namespace="s", name="n", uid="u", nodeName="node-1"))
    source = source_of(a_unit("u").annotated(notes).object())
    assert source is not None
    assert (source.key, source.uid, source.node) == (("s", "n"), "u", "node-1")
    assert SOURCE_STOCK_NODE not in provenance(CHOICE)
    assert provenance(CHOICE)[SOURCE_STOCK_UID] == "stock-uid"
