"""I2, conservation: seeded = free + claimed + handed over + failed, and no stock unit ever has two owners."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from equipment.judge.timeline import Life, Timeline, marks, phase
from gpu_runtime.api.v1alpha1.annotations import CLAIMED_BY, OPERATION_UID, SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE


@dataclass(frozen=True)
class StockCount:
    """Where the stock that was ever seeded is now."""

    free: int = 0
    claimed: int = 0
    handed_over: int = 0
    failed: int = 0
    removed: int = 0
    lost: int = 0

    @property
    def seeded(self) -> int:
        return self.free + self.claimed + self.handed_over + self.failed + self.removed + self.lost


@dataclass(frozen=True)
class _Stock:
    """The units of a timeline in their two roles."""

    stock: dict[str, Life]
    consumers: dict[
        str, list[tuple[int, Life]]
    ]  # by stock UID: units, with the version that gave them their provenance

    @classmethod
    def of(cls, timeline: Timeline, stock_namespace: str) -> _Stock:
        units = timeline.of_kind("GPUUnit")
        consumers: dict[str, list[tuple[int, Life]]] = {}
        for unit in units:
            if unit.namespace == stock_namespace:
                continue
            for version, source in unit.annotation(SOURCE_STOCK_UID):
                if source:
                    consumers.setdefault(source, []).append((version, unit))
        return cls({unit.uid: unit for unit in units if unit.namespace == stock_namespace}, consumers)


def conservation(
    timeline: Timeline,
    *,
    seeded: int | None = None,
    removed: Collection[str] = (),
    stock_namespace: str = STOCK_NAMESPACE,
) -> list[str]:
    """Violations of I2. `removed`: UIDs of stock that somebody deleted on purpose; `seeded`: how much there must be."""
    units = _Stock.of(timeline, stock_namespace)
    violations = [
        violation
        for life in units.stock.values()
        for judged in (_claims(life), _owners(life, units), _after_hand_over(life, units), _lost(life, units, removed))
        for violation in judged
    ]
    violations += _provenance(units)
    if seeded is not None and len(units.stock) != seeded:
        violations.append(f"{seeded} stock units should have been seeded, {len(units.stock)} were")
    return violations


def count_stock(
    timeline: Timeline, *, removed: Collection[str] = (), stock_namespace: str = STOCK_NAMESPACE
) -> StockCount:
    """Each stock unit that ever was, counted once, by where it is at the end."""
    units = _Stock.of(timeline, stock_namespace)
    places = [_place(life, units, removed) for life in units.stock.values()]
    return StockCount(**{place: places.count(place) for place in set(places)})


def _place(life: Life, units: _Stock, removed: Collection[str]) -> str:
    if units.consumers.get(life.uid):
        return "handed_over"
    if life.gone:
        return "removed" if life.uid in removed else "lost"
    if phase(life.last) == "Failed":
        return "failed"
    return "claimed" if marks(life.last).get(CLAIMED_BY) else "free"


def _claims(life: Life) -> Iterator[str]:
    """A claim ends by being given up, never by another's."""
    values = life.annotation(CLAIMED_BY)
    for (_, one), (version, other) in pairwise(values):
        if one and other:
            yield f"{life}: its claim went from operation {one} to {other} at resourceVersion {version}"


def _owners(life: Life, units: _Stock) -> Iterator[str]:
    """One stock unit becomes one active unit, ever."""
    consumers = units.consumers.get(life.uid, [])
    if len({unit.uid for _, unit in consumers}) > 1:
        owners = " and ".join(f"{unit} from resourceVersion {version}" for version, unit in consumers)
        yield f"{life} has two owners: {owners}"


def _after_hand_over(life: Life, units: _Stock) -> Iterator[str]:
    """When a unit gets its provenance, its operation holds the claim, and the stock is never free again."""
    for version, unit in units.consumers.get(life.uid, []):
        at_hand_over = [state for state in life.states if state.version <= version][-1:]
        if not at_hand_over or not marks(at_hand_over[0].document).get(CLAIMED_BY):
            yield f"{life} was handed over to {unit} at resourceVersion {version} without a claim"
        for state in life.states:
            holder = marks(state.document).get(CLAIMED_BY)
            if state.version > version and not holder:
                yield f"{life} is free at resourceVersion {state.version}, after it was handed over to {unit}"
        operation = marks(unit.last).get(OPERATION_UID)
        holder = marks(life.last).get(CLAIMED_BY)
        if operation and holder and operation != holder:
            yield f"{life} is claimed by operation {holder}, but {unit}, which consumed it, belongs to {operation}"


def _lost(life: Life, units: _Stock, removed: Collection[str]) -> Iterator[str]:
    if _place(life, units, removed) == "lost":
        yield f"{life} is gone, and no unit came of it"


def _provenance(units: _Stock) -> Iterator[str]:
    """A unit consumes one stock unit, which existed."""
    sources: dict[str, list[str]] = {}
    for source, consumers in units.consumers.items():
        for _, unit in consumers:
            sources.setdefault(str(unit), []).append(source)
            if source not in units.stock:
                yield f"{unit} names stock {source}, which never existed"
    for unit_name, consumed in sources.items():
        if len(set(consumed)) > 1:
            yield f"{unit_name} consumed more than one stock unit: {', '.join(consumed)}"
