"""The responses about serverless functions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.gpufunction import RetryPolicy, WorkerUnit
from gpu_runtime.api.v1alpha1.serverless import Framework
from gpu_runtime.rest.views import Generation, Phase


class HandlerView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The function as Python source."""

    entry: str
    source: Annotated[str, Meta(description="Absent in lists and watches.")] = ""


class FunctionView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A serverless function as it is now."""

    name: str
    namespace: str
    unit: Annotated[WorkerUnit | None, Meta(description="The unit that each worker is.")] = None
    handler: Annotated[HandlerView | None, Meta(description="Absent if the unit's image is the function.")] = None
    framework: Framework | None = None
    concurrency: int = 0
    # Written even if 0, which a person wants to read.
    minWorkers: int | None = None
    maxWorkers: int = 0
    idleTimeoutSeconds: int | None = None
    invocationTimeoutSeconds: int = 0
    queueLimit: int = 0
    retry: RetryPolicy | None = None
    phase: Annotated[Phase, Meta(description="Idle, Progressing, Ready or Failed. Pending until it was processed.")] = (
        ""
    )
    reason: Annotated[str, Meta(description="Of the Ready condition, or AwaitingController.")] = ""
    message: Annotated[str, Meta(description="Of the Ready condition: the cause, in words.")] = ""
    workers: Annotated[int | None, Meta(description="Workers that exist.")] = None
    readyWorkers: Annotated[int | None, Meta(description="Workers that take invocations.")] = None
    queued: Annotated[
        int | None, Meta(description="Invocations that wait. In the answer for one function, if the broker is there.")
    ] = None
    running: Annotated[int | None, Meta(description="Invocations that run, likewise.")] = None
    generation: Generation = 0
    observedGeneration: int = 0
    operationID: str = ""
    owner: str = ""
    createdAt: datetime | None = None
    deletingSince: Annotated[
        datetime | None, Meta(description="When the deletion began. The function is gone when its invocations ended.")
    ] = None
    deleted: Annotated[
        bool, Meta(description="In the response to a replay: the function was created and has been deleted.")
    ] = False
    resourceVersion: Annotated[str, Meta(description="Send it as If-Match to change exactly this version.")] = ""
