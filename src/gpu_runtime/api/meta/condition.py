"""Conditions: what is true of an object, since when, and for which generation of its spec."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One aspect of an object's state, with the reason and a message that a person can act on."""

    type: Annotated[
        str,
        Meta(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            description="What this condition is about, in CamelCase, such as Ready.",
        ),
    ]
    status: Annotated[ConditionStatus, Meta(description="Whether it holds: True, False or Unknown.")]
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            description="Why it has this status, in one CamelCase word for programs, such as DeploymentReady.",
        ),
    ]
    message: Annotated[
        str,
        Meta(
            max_length=32768,
            description="Why it has this status, in words for people: the cause, and what to do about it.",
        ),
    ] = ""
    # Only set_condition writes this field; the API server requires it.
    lastTransitionTime: Annotated[
        datetime | None,
        Meta(
            description="When the status last changed. Not moved by a new reason or message.", extra={"required": True}
        ),
    ] = None
    observedGeneration: Annotated[
        int,
        Meta(
            ge=0,
            description="The metadata.generation that this was found for; out of date if older than the object's.",
        ),
    ] = 0

    @classmethod
    def true(cls, name: str, reason: str, message: str = "", generation: int = 0) -> Condition:
        return cls(type=name, status="True", reason=reason, message=message, observedGeneration=generation)

    @classmethod
    def false(cls, name: str, reason: str, message: str = "", generation: int = 0) -> Condition:
        return cls(type=name, status="False", reason=reason, message=message, observedGeneration=generation)

    @classmethod
    def unknown(cls, name: str, reason: str, message: str = "", generation: int = 0) -> Condition:
        return cls(type=name, status="Unknown", reason=reason, message=message, observedGeneration=generation)


def find_condition(conditions: Iterable[Condition], name: str) -> Condition | None:
    """The condition of that type (`Ready`), if there is one."""
    return next((condition for condition in conditions if condition.type == name), None)


def set_condition(conditions: Iterable[Condition], new: Condition, now: datetime) -> list[Condition]:
    """The conditions, with `new` in place of the one of its type. The transition time changes only with the status.

    If `new` says the same as before, the lists are equal, so that comparing statuses finds nothing to write.
    """
    kept = list(conditions)
    for place, old in enumerate(kept):
        if old.type == new.type:
            since = old.lastTransitionTime if old.status == new.status else None
            kept[place] = replace(new, lastTransitionTime=since or _seconds(now))
            return kept
    return [*kept, replace(new, lastTransitionTime=_seconds(now))]


def _seconds(time: datetime) -> datetime:
    """Cuts the time to whole seconds, as Kubernetes does: clients that read and write the object lose a fraction."""
    return time.replace(microsecond=0)
