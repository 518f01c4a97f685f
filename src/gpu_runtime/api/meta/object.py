"""Object metadata, keys and owner references.

Fields are named as on the wire: one name to search for, and an error names the field as its author wrote it.
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
    """The part of `metadata` that we read or write; the server keeps the rest."""

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
    """Anything with metadata: what the client, the cache and the writer ask of a type."""

    @property
    def metadata(self) -> ObjectMeta: ...


def controller_reference(api_version: str, kind: str, owner: ObjectMeta) -> OwnerReference:
    """The reference by which `owner` controls a child and garbage collection finds it."""
    return OwnerReference(api_version, kind, owner.name, owner.uid, controller=True, blockOwnerDeletion=True)


def wire(value: object) -> Any:
    """A Struct as the JSON document that it is on the wire."""
    return msgspec.to_builtins(value)
