"""Decides what happens to an object, by the state of its owners. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from gpu_runtime.api.meta.object import ObjectMeta, OwnerReference
from gpu_runtime.kube.client import Propagation

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Owner(Enum):
    """The state of an owner."""

    SOLID = auto()
    WAITING = auto()
    """Deleted in the foreground: it waits until its dependents are gone."""
    ABSENT = auto()


@dataclass(frozen=True)
class Fate:
    """Kept as it is, kept with fewer owners, or deleted."""

    owners: list[OwnerReference] | None = None
    """The references that stay, when some must go."""
    delete: Propagation | None = None


def state_of(owner: ObjectMeta) -> Owner:
    if owner.deletionTimestamp is not None and FOREGROUND in owner.finalizers:
        return Owner.WAITING
    return Owner.SOLID


def fate(meta: ObjectMeta, owners: Mapping[str, Owner], *, has_dependents: bool) -> Fate:
    """Decides about a dependent by the state of its owners, which are given by uid."""
    states = [owners[one.uid] for one in meta.ownerReferences]
    if not states or meta.deletionTimestamp is not None:
        return Fate()
    if Owner.SOLID in states:
        kept = [one for one in meta.ownerReferences if owners[one.uid] is Owner.SOLID]
        return Fate(owners=kept if len(kept) < len(states) else None)
    if Owner.WAITING in states and has_dependents:
        return Fate(delete="Foreground")
    if ORPHAN in meta.finalizers:
        return Fate(delete="Orphan")
    return Fate(delete="Foreground" if FOREGROUND in meta.finalizers else "Background")


def blocks(dependent: ObjectMeta, owner: str) -> bool:
    """Whether the owner must wait for this dependent."""
    return any(one.uid == owner and one.blockOwnerDeletion for one in dependent.ownerReferences)
