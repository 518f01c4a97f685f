"""The record of who holds a storage. It changes only by compare-and-set; docs/storage.md says why that is safe."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gpu_runtime.api.meta.names import is_dns1123_subdomain
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, OPERATION_UID
from gpu_runtime.api.v1alpha1.fields import Reported, Uid


class Attachment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The one holder of a storage: a unit, or another storage that copies from it.

    As JSON it is the value of the `attached-to` annotation, which decides; the status only mirrors it.
    """

    unit: Annotated[Reported, Meta(description="Name of the unit that holds the storage, in the same namespace.")] = ""
    storage: Annotated[
        Reported, Meta(description="Name of the GPUStorage that is being filled from this one; then there is no unit.")
    ] = ""
    uid: Annotated[
        Uid, Meta(description="UID of that unit or GPUStorage; absent if an Operation creates the unit.")
    ] = ""
    operation: Annotated[Uid, Meta(description="UID of the Operation that creates the unit.")] = ""
    operationName: Annotated[Reported, Meta(description="Name of that Operation.")] = ""
    since: Annotated[datetime | None, Meta(description="When the holder got the storage.")] = None

    def __str__(self) -> str:
        return f"storage {self.storage}" if self.storage else f"unit {self.unit}"


UNREADABLE = Attachment(unit="(unreadable)")
"""The holder when somebody edited the annotation by hand and it cannot be read. Nobody frees such a storage."""

_DECODER = msgspec.json.Decoder(Attachment)


def new_fence() -> str:
    """A value for the annotation FENCE that no earlier write had: a patch that changes nothing keeps the version."""
    return secrets.token_hex(8)


def attachment_of(storage: ObjectMeta) -> Attachment | None:
    """The holder of the storage with this metadata; None if it is free."""
    text = storage.annotations.get(ATTACHED_TO)
    if text is None:
        return None
    try:
        holder = _DECODER.decode(text)
    except msgspec.MsgspecError:
        return UNREADABLE
    return holder if _names_one(holder) else UNREADABLE


def _names_one(holder: Attachment) -> bool:
    """Whether there can be such a holder. The API server refuses to look for names that no object can have."""
    names = [name for name in (holder.unit, holder.storage) if name]
    operation = [holder.operationName] if holder.operationName else []
    return len(names) == 1 and all(is_dns1123_subdomain(name) for name in (*names, *operation))


def attached_to(holder: Attachment) -> dict[str, str]:
    """The annotation that makes `holder` the holder."""
    return {ATTACHED_TO: msgspec.json.encode(holder, order="deterministic").decode()}


def in_use(storage: str, holder: Attachment) -> str:
    """What others who want to mount the storage are told. A unit that was deleted holds it until its pod has ended."""
    if holder is UNREADABLE:
        return (
            f"storage {storage}: its annotation {ATTACHED_TO} cannot be read: remove it if no unit mounts the storage"
        )
    if holder.storage:
        return f"storage {storage} is in use by {holder}, which is being filled from it: wait until it is filled"
    return f"storage {storage} is in use by {holder}: one unit can mount it at a time, until its pod has ended"


def holds(holder: Attachment | None, unit: ObjectMeta) -> bool:
    """Whether the record names this very unit: by its UID, or by the Operation that created it."""
    if holder is None or holder.unit != unit.name:
        return False
    if holder.uid:
        return holder.uid == unit.uid
    return bool(holder.operation) and holder.operation == unit.annotations.get(OPERATION_UID)
