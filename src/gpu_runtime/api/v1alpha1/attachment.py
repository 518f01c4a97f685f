"""The record of who holds a storage."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.fields import Reported, Uid


class Attachment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The one holder of a storage: an operation that is attaching it, then the unit that it made.

    As JSON it is the value of the `attached-to` annotation, which decides; the status only mirrors it.
    """

    operation: Annotated[Uid, Meta(description="UID of the Operation that attached the storage.")]
    unit: Annotated[Reported, Meta(description="Name of the unit, in the same namespace.")]
    uid: Annotated[Uid, Meta(description="UID of that unit; absent until it exists.")] = ""
