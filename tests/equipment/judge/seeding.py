"""I2 of seeding: each number of a batch is one unit, ever, and only that one was Ready or claimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from equipment.judge.timeline import Life, State, Timeline, marks, phase
from gpu_runtime.api.v1alpha1.annotations import CLAIMED_BY, OPERATION_UID, STOCK_ORDINAL
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE


def made_once(timeline: Timeline, batches: Mapping[str, int], *, stock_namespace: str = STOCK_NAMESPACE) -> list[str]:
    """Violations. `batches`: operationID and size of every batch, each of which must have succeeded."""
    records = {life.uid: life for life in timeline.of_kind("Operation") if _type(life) == "CreateStockUnits"}
    violations = [violation for record in records.values() for violation in _list_changed(record)]
    for operation_id, size in batches.items():
        mine = [life for life in records.values() if life.last["spec"]["operationID"] == operation_id]
        if len(mine) != 1:
            violations.append(f"batch {operation_id} has {len(mine)} records")
        for record in mine:
            violations += _incomplete(record, size, timeline)
    for unit in timeline.of_kind("GPUUnit"):
        if unit.namespace == stock_namespace and STOCK_ORDINAL in marks(unit.last):
            violations += _unit(unit, records.get(marks(unit.last)[OPERATION_UID]))
    return violations


def unlisted(timeline: Timeline, *, stock_namespace: str = STOCK_NAMESPACE) -> set[str]:
    """UIDs of seeded units that no record ever listed: an executor made them too late, and they were removed."""
    listed = {uid for record in timeline.of_kind("Operation") for uid in _units(record.states[-1])}
    seeded = [unit for unit in timeline.of_kind("GPUUnit") if unit.namespace == stock_namespace]
    return {unit.uid for unit in seeded if STOCK_ORDINAL in marks(unit.last) and unit.uid not in listed}


def _list_changed(record: Life) -> Iterator[str]:
    known: dict[int, str] = {}
    for state in record.states:
        units = _units(state)
        for number, uid in known.items():
            if number > len(units) or units[number - 1] != uid:
                yield f"{record}: number {number} was {uid} and is something else at resourceVersion {state.version}"
        known |= {number: uid for number, uid in enumerate(units, 1) if uid}


def _incomplete(record: Life, size: int, timeline: Timeline) -> Iterator[str]:
    units = _units(record.states[-1])
    if phase(record.last) != "Succeeded":
        yield f"{record} ended as {phase(record.last)}"
    if len(units) != size or not all(units) or len(set(units)) != size:
        yield f"{record} lists {len([uid for uid in units if uid])} units, {size} were asked for"
    for uid in units:
        if uid and uid not in timeline.lives:
            yield f"{record} lists {uid}, which never existed"


def _unit(unit: Life, record: Life | None) -> Iterator[str]:
    number = int(marks(unit.last)[STOCK_ORDINAL])
    listing = [state.version for state in record.states if _lists(state, number, unit)] if record else []
    since = min(listing, default=0)
    for state in unit.states:
        used = (
            "Ready" if phase(state.document) == "Ready" else "claimed" if marks(state.document).get(CLAIMED_BY) else ""
        )
        if used and not (since and since < state.version):
            yield f"{unit}, number {number}, was {used} at resourceVersion {state.version} and not listed then"
            break
    if not since and not unit.gone:
        yield f"{unit}, number {number}, is not listed and was not removed"


def _lists(state: State, number: int, unit: Life) -> bool:
    units = _units(state)
    return number <= len(units) and units[number - 1] == unit.uid


def _units(state: State) -> list[str]:
    return list((state.document.get("status") or {}).get("units") or [])


def _type(life: Life) -> str:
    return str(life.last.get("spec", {}).get("type", ""))
