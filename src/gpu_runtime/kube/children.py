"""Writes the children that a controller owns, and no other objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from gpu_runtime.api.meta.object import Object, ObjectMeta, wire
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import AlreadyExists, NameConflict, NotFound
from gpu_runtime.kube.ownership import BY_REFERENCE, Ownership
from gpu_runtime.kube.resource import Resource

T = TypeVar("T", bound=Object)


class Change(StrEnum):
    """What `ensure` did to a child."""

    CREATED = "created"
    CHANGED = "changed"
    NONE = "none"
    DELETING = "deleting"
    """The child is being deleted. A new one with this name can be created when it is gone."""


@dataclass(frozen=True)
class Written(Generic[T]):
    change: Change
    object: T


class Children:
    """Creates, repairs and deletes children. Identity is checked at every write.

    The Struct of a child holds the fields that its builder sets, and no others: "unchanged" means that the live object,
    read into that Struct, equals what the builder makes. Fields outside of it belong to whoever wrote them.
    """

    def __init__(self, client: Client, ownership: Ownership = BY_REFERENCE) -> None:
        self.client = client
        self.ownership = ownership

    async def ensure(self, resource: Resource[T], desired: T, cached: T | None) -> Written[T]:
        """Creates or repairs the child. `desired` names its owner; `cached` is the child as the cache shows it."""
        if cached is None:
            try:
                return Written(Change.CREATED, await self.client.create(resource, desired))
            except AlreadyExists:
                # The child is ours (lost answer or old cache) or belongs to another owner: a live read tells.
                cached = await self.client.get(resource, desired.metadata.key)
        check_ownership(resource, desired, cached, self.ownership)
        if cached.metadata.deletionTimestamp is not None:
            return Written(Change.DELETING, cached)
        difference = changes(cached, desired)
        if not difference:
            return Written(Change.NONE, cached)
        patch = {**difference, "metadata": {**difference.get("metadata", {}), **identity(cached.metadata)}}
        return Written(Change.CHANGED, await self.client.patch(resource, desired.metadata.key, patch))

    def owns(self, owner: ObjectMeta, child: ObjectMeta) -> bool:
        """Whether `owner` owns the child, by UID."""
        named = self.ownership.owner_of(child)
        return named is not None and named.uid == owner.uid

    async def delete(self, resource: Resource[T], owner: ObjectMeta, cached: T) -> bool:
        """Deletes the child if it is still as we know it and `owner` owns it; False when it was gone."""
        if not self.owns(owner, cached.metadata):
            raise NameConflict(_foreign(resource, cached, self.ownership))
        if cached.metadata.deletionTimestamp is not None:
            return True
        try:
            # With the resourceVersion: if a person has removed our ownership since, the child must stay.
            uid, version = cached.metadata.uid, cached.metadata.resourceVersion
            await self.client.delete(resource, cached.metadata.key, uid=uid, resource_version=version)
        except NotFound:
            return False
        return True


def check_ownership(resource: Resource[T], desired: T, live: T, ownership: Ownership = BY_REFERENCE) -> None:
    """Raises NameConflict unless `live` belongs to the very owner, by UID, that `desired` names."""
    wanted, actual = ownership.owner_of(desired.metadata), ownership.owner_of(live.metadata)
    assert wanted is not None, "the builder of a child names its owner"
    if actual is None or actual.uid != wanted.uid:
        raise NameConflict(_foreign(resource, live, ownership))


def identity(live: ObjectMeta) -> dict[str, str]:
    """The preconditions of a patch: UID and resourceVersion of the object that was read."""
    return {"uid": live.uid, "resourceVersion": live.resourceVersion}


def changes(live: Object, desired: Object) -> dict[str, Any]:
    """The JSON merge patch that turns `live` into `desired`; empty when nothing differs.

    Lists are replaced as a whole: entries that a person added are removed. Labels, annotations and finalizers of the
    object itself are shared with other writers, so only those that we set are compared.
    """
    patch = _struct_patch(live, desired, skip=("metadata", "status"))
    metadata: dict[str, Any] = {
        field: missing
        for field in ("labels", "annotations")
        if (missing := _missing(getattr(live.metadata, field), getattr(desired.metadata, field)))
    }
    theirs = live.metadata.finalizers
    if lost := [finalizer for finalizer in desired.metadata.finalizers if finalizer not in theirs]:
        metadata["finalizers"] = [*theirs, *lost]
    return {**patch, "metadata": metadata} if metadata else patch


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    # Cached: reading the fields evaluates the annotations of the class, which costs more than the comparison.
    return msgspec.structs.fields(kind)


def _struct_patch(live: Any, desired: Any, skip: Sequence[str] = ()) -> dict[str, Any]:
    # Values are compared, not documents: a default that the server spelled out equals one that we left out.
    patch: dict[str, Any] = {}
    kind: type[msgspec.Struct] = type(desired)
    for field in _fields(kind):
        if field.name in skip:
            continue
        before, after = getattr(live, field.name), getattr(desired, field.name)
        if before != after:
            patch[field.encode_name] = None if after == _default(field) else _value_patch(before, after)
    return patch


def _value_patch(before: Any, after: Any) -> Any:
    if isinstance(after, msgspec.Struct) and type(before) is type(after):
        return _struct_patch(before, after)
    if isinstance(after, dict) and isinstance(before, dict):
        changed = {
            name: _value_patch(before.get(name), value) for name, value in after.items() if before.get(name) != value
        }
        return {**dict.fromkeys(before.keys() - after.keys()), **changed}
    return wire(after)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _missing(actual: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if actual.get(name) != value}


def _foreign(resource: Resource[Any], live: Object, ownership: Ownership) -> str:
    reference, owner = live.metadata.controller, ownership.owner_of(live.metadata)
    holder = "it has no owner"
    if reference is not None:
        holder = f"it belongs to {reference.kind} {reference.name}"
    elif owner is not None:
        holder = f"it belongs to {owner.name} with UID {owner.uid}"
    return f"{resource.kind} {live.metadata.key} exists and is not ours: {holder}; rename or delete it"
