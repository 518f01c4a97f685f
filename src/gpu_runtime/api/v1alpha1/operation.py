"""Operation: the durable record of one client operation. Every process that works on the operation follows it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.immutability import immutable
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.fields import LastSyncTime, ObjectName, Reported, SubdomainName, Uid
from gpu_runtime.api.v1alpha1.group import API_VERSION

OperationType = Literal["CreateStockPool", "CreateStockUnits", "CreateGPUUnit", "CreateGPUStorage", "CreateGPUFunction"]
OperationPhase = Literal["Pending", "Running", "Succeeded", "Failed"]

OperationID = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$",
        extra={"hint": "letters, digits, '.', '_', ':' and '-', beginning with a letter or digit"},
    ),
]


class ObjectReference(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One object that an operation makes or made."""

    kind: Annotated[Reported, Meta(description="Kind of the object, such as GPUUnit.")]
    namespace: Annotated[Reported, Meta(description="Its namespace.")]
    name: Annotated[Reported, Meta(description="Its name.")]
    uid: Annotated[Uid, Meta(description="Its UID; absent until it exists.")] = ""


class StockChoice(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The stock unit that the operation consumes. The UID rules out a later unit of the same name."""

    namespace: Annotated[ObjectName, Meta(description="Namespace of the stock unit.")]
    name: Annotated[ObjectName, Meta(description="Name of the stock unit.")]
    uid: Annotated[Uid, Meta(description="UID of the stock unit.")]
    nodeName: Annotated[SubdomainName | None, Meta(description="Node that its pod held; the new unit prefers it.")] = (
        None
    )


class Decisions(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was decided for the operation before it was done. Executors follow this record, never their memory."""

    stock: Annotated[
        StockChoice | None,
        Meta(description="The stock unit to consume. When another operation was faster, the next choice replaces it."),
    ] = None


NOTHING_DECIDED = Decisions()


class OperationError(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why the operation failed, in the words that the client was told."""

    code: Annotated[Reported, Meta(description="Code of the error in the REST API, such as insufficient_capacity.")]
    message: Annotated[str, Meta(max_length=32768, description="What went wrong and what can be done.")] = ""


class OperationSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the client asked for."""

    type: Annotated[OperationType, Meta(description="What the operation does. Ids of different types are independent.")]
    operationID: Annotated[
        OperationID,
        Meta(description="The id that the client chose. The same id and payload again is the same operation."),
    ]
    requestHash: Annotated[
        str,
        Meta(
            max_length=64,
            pattern=r"^[0-9a-f]{64}$",
            description="SHA-256 of the request in canonical form. The same id with another hash is refused.",
            extra={"hint": "64 hexadecimal digits"},
        ),
    ]
    request: Annotated[
        dict[str, Any],
        Meta(description="The request, while the operation is unfinished, so that any replica can go on with it."),
    ] = {}


class OperationStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far the operation is, and what was decided on the way."""

    phase: Annotated[
        OperationPhase,
        Meta(
            description="Pending or Running; Succeeded when all objects are persisted; Failed while it is being undone."
        ),
    ] = "Pending"
    decisions: Annotated[Decisions, Meta(description="What was decided before it was done.")] = NOTHING_DECIDED
    objects: Annotated[
        list[ObjectReference], Meta(max_length=1000, description="The objects that the operation makes or made.")
    ] = []
    units: Annotated[
        list[Uid],
        Meta(
            max_length=1000,
            description="Of a batch of stock: the UID of each ordinal's unit, empty until it is made. An entry never "
            "changes. Stock becomes Ready only when it is listed here.",
        ),
    ] = []
    error: Annotated[OperationError | None, Meta(description="Why it failed.")] = None
    completionTime: Annotated[datetime | None, Meta(description="When it succeeded or failed.")] = None
    deletionTime: Annotated[
        datetime | None,
        Meta(description="When the object that it made was deleted. A replay then makes nothing."),
    ] = None
    lastSyncTime: LastSyncTime = None


class Operation(Struct, frozen=True, kw_only=True):
    """The durable record of one client operation: what was asked, what was decided, and how it ended.

    It has no status subresource. The choice of stock must be in the record from its creation on (a create drops the
    status of a kind that has the subresource), and the commit moves the phase and drops the request in one PUT with a
    resourceVersion. Between two writes there would be a state from which no executor could continue.
    """

    apiVersion: str = API_VERSION
    kind: str = "Operation"
    metadata: ObjectMeta
    spec: Annotated[
        OperationSpec,
        Meta(
            description="What the client asked for.",
            extra_json_schema=immutable(
                "type", "operationID", "requestHash", because="the record belongs to one request"
            ),
        ),
    ]
    status: Annotated[OperationStatus, Meta(description="How far it is; written with every decision.")] = (
        OperationStatus()
    )
