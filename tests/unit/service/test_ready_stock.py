"""Stock in order of age, whatever happened to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import CLAIMED_BY
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpu_runtime.kube.store import Store
from gpu_runtime.service.stock.ready_stock import ReadyStock, age, state

BORN = datetime(2030, 1, 1, tzinfo=UTC)
CHANGES = st.tuples(
    st.sampled_from(["appear", "claim", "free", "fail", "heal", "go", "elsewhere"]),
    st.integers(0, 5),
    st.integers(0, 3),
)


def a_stock_unit(number: int, seconds: int, version: int, namespace: str = "runtime-stock") -> GPUUnit:
    return GPUUnit(
        metadata=ObjectMeta(
            name=f"stock-{number}",
            namespace=namespace,
            uid=f"{number}",
            resourceVersion=str(version),
            generation=1,
            creationTimestamp=BORN + timedelta(seconds=seconds),
        ),
        spec=GPUUnitSpec(specName=f"g{number % 2}", memory="1Gi", gpu=1),
        status=GPUUnitStatus(
            phase="Ready", observedGeneration=1, conditions=[Condition.true("Ready", "UnitReady", generation=1)]
        ),
    )


@given(st.lists(CHANGES, max_size=30), st.booleans())
def test_it_is_what_sorting_the_whole_cache_gives(changes: list[tuple[str, int, int]], early: bool) -> None:
    store = Store[GPUUnit]()
    ready = ReadyStock(store, "runtime-stock") if early else None
    born: dict[int, int] = {}
    for version, (what, number, seconds) in enumerate(changes, 1):
        unit = a_stock_unit(number, born.setdefault(number, seconds), version)
        match what:
            case "go":
                store.remove(unit.metadata.key)
                born.pop(number)
                continue
            case "claim":
                unit = replace(unit, metadata=replace(unit.metadata, annotations={CLAIMED_BY: "somebody"}))
            case "fail":
                unit = replace(unit, status=replace(unit.status, phase="Failed"))
            case "elsewhere":
                unit = a_stock_unit(number, seconds, version, namespace="runtime-instance")
        store.upsert(unit)
    ready = ready or ReadyStock(store, "runtime-stock")
    for spec in ("g0", "g1", "none"):
        whole = [unit for unit in store if unit.spec.specName == spec and state(unit) == "ready"]
        stock = sorted((unit for unit in whole if unit.metadata.namespace == "runtime-stock"), key=age)
        assert list(ready.oldest_first(spec)) == stock
