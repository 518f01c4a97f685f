"""Object metadata, keys and owner references.

Fields have their wire names: there is one name to search for, and errors name a field as the user wrote it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec


class Key(NamedTuple):
    """Names one object of a kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names the object that this one is deleted with."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    blockOwnerDeletion: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of `metadata` that this project reads or writes. The server keeps the other fields."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if any."""
        return next((owner for owner in self.ownerReferences if owner.controller), None)


class Object(Protocol):
    """Anything with metadata: the client, the cache and the writer need nothing else of a type."""

    @property
    def metadata(self) -> ObjectMeta: ...


def controller_reference(api_version: str, kind: str, owner: ObjectMeta) -> OwnerReference:
    """The owner reference for a child that `owner` controls. Garbage collection uses it."""
    return OwnerReference(api_version, kind, owner.name, owner.uid, controller=True, blockOwnerDeletion=True)


def wire(value: object) -> Any:
    """Converts a Struct to its JSON document on the wire."""
    return msgspec.to_builtins(value)
