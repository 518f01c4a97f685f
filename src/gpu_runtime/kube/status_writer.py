"""Writes the status of an object when it differs, and keeps the conditions that belong to other writers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from msgspec import structs

from gpu_runtime.api.meta.condition import Condition, set_condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.resource import Resource


class Status(Protocol):
    """The status Struct of a kind."""

    @property
    def conditions(self) -> list[Condition]: ...


class Reporting(Protocol):
    """An object of a kind that has a status with conditions."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def status(self) -> Status: ...


T = TypeVar("T", bound=Reporting)
S = TypeVar("S", bound=Status)


@dataclass(frozen=True)
class StatusWriter(Generic[T]):
    """Writes the status of one kind for one reconciler, which owns the condition types `owns`.

    The status goes as a whole to the version that the reconciler saw: a write that was decided on an older version is
    a Conflict. So two reconcilers can report on one object, each with condition types of its own.
    """

    resource: Resource[T]
    cache: OwnWrites[T]
    client: Client
    owns: tuple[str, ...]
    time_field: str = ""
    """Field of the status that holds the time of its last write. It is not compared."""
    clock: Clock = SYSTEM_CLOCK

    async def write(self, obj: T, status: S, conditions: Sequence[Condition]) -> bool:
        """Writes `status` with these conditions; False when the object has them already, or is gone."""
        new = self.difference(obj, status, conditions)
        return new is not None and await self.put(obj, new)

    def difference(self, obj: T, status: S, conditions: Sequence[Condition]) -> S | None:
        """The status to write. None when the object has it: then nothing is written, not even the time."""
        now = self.clock.now()
        times = {self.time_field: getattr(obj.status, self.time_field)} if self.time_field else {}
        merged = merge_conditions(obj.status.conditions, conditions, self.owns, now)
        new = structs.replace(status, conditions=merged, **times)  # type: ignore[type-var]
        return new if new != obj.status else None

    async def put(self, obj: T, status: S) -> bool:
        """Writes a status that `difference` returned; False when the object is gone."""
        if self.time_field:
            status = structs.replace(status, **{self.time_field: self.clock.now().replace(microsecond=0)})  # type: ignore[type-var]
        changed = structs.replace(obj, status=status)  # type: ignore[type-var]
        try:
            written = await self.client.replace(self.resource, changed, subresource="status")
        except NotFound:
            return False
        self.cache.wrote(written)
        return True


def merge_conditions(
    before: Iterable[Condition], conditions: Sequence[Condition], owns: Sequence[str], now: datetime
) -> list[Condition]:
    """`conditions` beside those of types that others own. An owned type that `conditions` leaves out is removed.

    `lastTransitionTime` moves only when the status of a condition changes.
    """
    given = {condition.type for condition in conditions}
    assert given <= set(owns), f"conditions of other writers: {sorted(given - set(owns))}"
    merged = [condition for condition in before if condition.type in given or condition.type not in owns]
    for condition in conditions:
        merged = set_condition(merged, condition, now)
    return merged
