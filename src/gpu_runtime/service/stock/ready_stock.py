"""The stock that can be handed over, sorted by age for each spec and updated with the cache."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.kube.store import Delta, Store

Age = tuple[datetime, str]


def state(unit: GPUUnit) -> str:
    """Why the unit cannot be handed over, apart from its node; `ready` when it can."""
    if unit.metadata.deletionTimestamp is not None:
        return "being deleted"
    if notes.CLAIMED_BY in unit.metadata.annotations:
        return "claimed"
    if unit.status.phase == "Failed":
        return "failed"
    ready = find_condition(unit.status.conditions, READY)
    current = unit.status.observedGeneration == unit.metadata.generation
    if unit.status.phase != "Ready" or not current or (ready is not None and ready.status != "True"):
        return "not ready yet"
    return "ready"


def age(unit: GPUUnit) -> Age:
    """Sort key: oldest first, then by name."""
    return (unit.metadata.creationTimestamp or datetime.min.replace(tzinfo=UTC), unit.metadata.name)


class ReadyStock:
    """An index over the cache of units: the cost of a choice does not grow with the stock."""

    def __init__(self, units: Store[GPUUnit], namespace: str) -> None:
        self._units = units
        self._namespace = namespace
        self._ages: dict[str, list[Age]] = defaultdict(list)
        for unit in units:
            self._changed(Delta(None, unit))
        units.subscribe(self._changed)

    def oldest_first(self, spec: str) -> Iterator[GPUUnit]:
        for _, name in self._ages.get(spec, ()):
            unit = self._units.get(Key(self._namespace, name))
            assert unit is not None, "a unit leaves the index when it leaves the cache"
            yield unit

    def _changed(self, delta: Delta[GPUUnit]) -> None:
        if delta.object.metadata.namespace != self._namespace:
            return
        if delta.old is not None and state(delta.old) == "ready":
            ages = self._ages[delta.old.spec.specName]
            del ages[bisect_left(ages, age(delta.old))]
        if delta.new is not None and state(delta.new) == "ready":
            insort(self._ages[delta.new.spec.specName], age(delta.new))
