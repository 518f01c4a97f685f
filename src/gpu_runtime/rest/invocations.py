"""Requests and views of invocations and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gpu_runtime.api.v1alpha1.fields import ObjectName
from gpu_runtime.api.v1alpha1.serverless import RequestID
from gpu_runtime.rest.errors import ErrorBody

INVOCATION_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
MOST_IN_BATCH = 1000
MOST_ENTRIES = 64
LONGEST_TIMEOUT = 7 * 86400
LONGEST_WAIT = 600

InvocationID = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=INVOCATION_ID,
        extra={"hint": "up to 64 letters, digits, '-' and '_', beginning with a letter or digit"},
    ),
]
FunctionName = Annotated[RequestID, Meta(min_length=1)]
Mode = Literal["async", "sync"]
Priority = Literal["normal", "high"]
State = Literal["queued", "running", "succeeded", "failed", "expired", "cancelled", "dead_lettered"]
DeadLetterSource = Literal["run", "malformed", "max_deliver"]
Entries = Annotated[dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=MOST_ENTRIES)]


class SubmitInvocation(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One call of a function. It waits in a queue until a worker takes it."""

    serverlessRequestID: Annotated[FunctionName, Meta(description="Name of the function.")]
    namespace: Annotated[
        ObjectName | None, Meta(description="Namespace of the function. Default: runtime-instance.")
    ] = None
    invocationID: Annotated[
        InvocationID | None,
        Meta(
            description="Chosen by the client, one for each invocation of the function. A retry sends the same id and "
            "the same payload, and is answered with the invocation that exists. Default: a random one."
        ),
    ] = None
    mode: Annotated[
        Mode, Meta(description="sync: the answer waits for the end. Ids may be replayed in either mode.")
    ] = "async"
    waitSeconds: Annotated[
        Annotated[int, Meta(ge=0, le=LONGEST_WAIT)] | None,
        Meta(description="With mode sync: how long the answer waits for the end. After that it is 202 with the id."),
    ] = None
    payload: Annotated[Any, Meta(description="What the function is called with: any JSON.")] = None
    headers: Annotated[Entries, Meta(description="Passed on to the function.")] = {}
    attributes: Annotated[Entries, Meta(description="Passed on to the function.")] = {}
    timeoutSeconds: Annotated[
        Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT)] | None,
        Meta(
            description="When this time after acceptance is over, the invocation is expired, whether it waits or runs. "
            "Default: the installation's limit for waiting, and the function's own for each run."
        ),
    ] = None
    priority: Annotated[Priority, Meta(description="Workers take waiting ones of high priority first.")] = "normal"


class SubmitBatch(Struct, frozen=True, kw_only=True):
    """Several calls of one or more functions. Each is accepted or refused on its own."""

    invocations: Annotated[
        list[SubmitInvocation], Meta(min_length=1, max_length=MOST_IN_BATCH, description="None may have mode sync.")
    ]


class InvocationView(Struct, frozen=True, kw_only=True):
    """An invocation as it is now: its last run. Fields that do not apply yet are absent."""

    invocationID: str
    serverlessRequestID: str
    namespace: str
    run: Annotated[int, Meta(description="1, and one more for each retry or redrive.")] = 1
    mode: Mode = "async"
    state: State
    priority: Priority | UnsetType = UNSET
    duplicate: Annotated[
        bool | UnsetType, Meta(description="In answers to a submit: whether the id had been accepted before.")
    ] = UNSET
    acceptedAt: datetime | None = None
    deadline: Annotated[
        datetime | UnsetType, Meta(description="Until when it must have ended; later it is expired.")
    ] = UNSET
    position: Annotated[
        int | UnsetType, Meta(description="While queued: 1 is the next that a worker of the function takes.")
    ] = UNSET
    reason: Annotated[
        str | UnsetType, Meta(description="While queued and no worker is ready: why, such as WorkersStarting.")
    ] = UNSET
    message: Annotated[str | UnsetType, Meta(description="The reason, in words.")] = UNSET
    workerName: str | UnsetType = UNSET
    workerNamespace: str | UnsetType = UNSET
    attempts: Annotated[int | UnsetType, Meta(description="How often it was given to a worker.")] = UNSET
    startedAt: datetime | UnsetType | None = UNSET
    completedAt: datetime | UnsetType = UNSET
    statusCode: int | UnsetType | None = UNSET
    contentType: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    body: Annotated[Any, Meta(description="What the function returned, if that is JSON.")] = UNSET
    bodyBase64: Annotated[
        str | UnsetType, Meta(description="What the function returned, in base64, if it is not JSON.")
    ] = UNSET
    bodyMissing: Annotated[
        str | UnsetType, Meta(description="Why the body cannot be shown, such as that it is not kept any more.")
    ] = UNSET
    failureClass: Annotated[
        str | UnsetType | None, Meta(description="For programs: why it did not succeed; null if it did.")
    ] = UNSET
    error: Annotated[str | UnsetType | None, Meta(description="For people: why it did not succeed.")] = UNSET


class BatchVerdict(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of one call of a batch."""

    status: Annotated[int, Meta(description="The status that a request for it alone would have had.")]
    data: Annotated[InvocationView | None, Meta(description="If it was accepted, now or before.")] = None
    error: Annotated[ErrorBody | None, Meta(description="Why it was refused.")] = None


class DeadLetterView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An invocation or message that was given up, and why."""

    id: Annotated[str, Meta(description="For `redrive`.")]
    source: Annotated[
        DeadLetterSource,
        Meta(description="run: an invocation that used all attempts. The others are messages that could not be read."),
    ]
    invocationID: str = ""
    serverlessRequestID: str = ""
    namespace: str = ""
    run: int = 0
    failureClass: str = ""
    error: Annotated[str, Meta(description="The last error.")] = ""
    attempts: int = 0
    failedAt: datetime | None = None
    redriven: Annotated[bool, Meta(description="Whether a later run of the invocation exists.")] = False
    subject: Annotated[str, Meta(description="Of a message that could not be read.")] = ""
    contentBase64: Annotated[str, Meta(description="Bytes of a message that could not be read; only for one.")] = ""


class RedriveAll(Struct, frozen=True, kw_only=True):
    """All dead letters of a function that were not redriven yet."""

    serverlessRequestID: Annotated[FunctionName, Meta(description="Name of the function.")]
    namespace: Annotated[
        ObjectName | None, Meta(description="Namespace of the function. Default: runtime-instance.")
    ] = None


class RedriveView(Struct, frozen=True, kw_only=True):
    """What became of one page of a function's dead letters."""

    redriven: int
    already: Annotated[int, Meta(description="Those that another request had redriven.")]
    refused: Annotated[int, Meta(description="Those that cannot run again, such as without a payload.")]
