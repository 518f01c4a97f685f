"""How a child says who owns it: by a controller reference, or by annotations that the garbage collector ignores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gpu_runtime.api.meta.object import ObjectMeta


class Owner(NamedTuple):
    """The owner that a child names. A name can be reused, a UID never is."""

    name: str
    uid: str


class Ownership(Protocol):
    @property
    def is_collected(self) -> bool:
        """Whether the garbage collector deletes the child when its owner is gone."""

    def owner_of(self, child: ObjectMeta) -> Owner | None:
        """The owner that the child names, if it names one."""


@dataclass(frozen=True)
class ByReference:
    """The controller reference names the owner. The child is deleted together with its owner."""

    @property
    def is_collected(self) -> bool:
        return True

    def owner_of(self, child: ObjectMeta) -> Owner | None:
        reference = child.controller
        return Owner(reference.name, reference.uid) if reference is not None else None


@dataclass(frozen=True)
class ByAnnotation:
    """Two annotations hold the owner's name and UID. The child stays until the owner's controller deletes it.

    For children that hold data: a foreground deletion of the owner removes children with an owner reference even while
    a finalizer keeps the owner.
    """

    name: str
    uid: str

    @property
    def is_collected(self) -> bool:
        return False

    def annotations(self, owner: ObjectMeta) -> dict[str, str]:
        """What the builder of a child writes into its annotations."""
        return {self.name: owner.name, self.uid: owner.uid}

    def owner_of(self, child: ObjectMeta) -> Owner | None:
        uid = child.annotations.get(self.uid)
        if not uid or child.controller is not None:  # copied annotations on an object that somebody else controls
            return None
        return Owner(child.annotations.get(self.name, ""), uid)


BY_REFERENCE = ByReference()
