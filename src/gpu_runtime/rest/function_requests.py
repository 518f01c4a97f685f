"""The requests about serverless functions. A function is created with the fields of its kind's spec."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from gpu_runtime.api.meta.names import DNS1035_LABEL, DNS1035_LABEL_HINT
from gpu_runtime.api.v1alpha1.fields import ObjectName, Seconds
from gpu_runtime.api.v1alpha1.gpufunction import NAME_LENGTH, GPUFunctionSpec, Handler, RetryPolicy, WorkerUnit
from gpu_runtime.api.v1alpha1.serverless import Framework
from gpu_runtime.rest.requests import Operation_ID

FunctionName = Annotated[
    str, Meta(min_length=1, max_length=NAME_LENGTH, pattern=DNS1035_LABEL, extra={"hint": DNS1035_LABEL_HINT})
]


class CreateGPUFunction(GPUFunctionSpec, frozen=True, omit_defaults=True, kw_only=True):
    """A serverless function: invocations wait in a queue, and workers come and go with it."""

    operationID: Operation_ID
    name: Annotated[FunctionName, Meta(description="Name of the function: the serverlessRequestID of invocations.")]
    namespace: Annotated[
        ObjectName | None, Meta(description="Namespace of the function. Default: runtime-instance.")
    ] = None


class UpdateGPUFunction(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Fields to change. An absent field is kept, null restores the default. Workers are replaced one by one."""

    unit: Annotated[WorkerUnit | UnsetType, Meta(description="The unit that each worker is; replaced as a whole.")] = (
        UNSET
    )
    handler: Annotated[
        Handler | UnsetType | None,
        Meta(description="The function as source; replaced as a whole. null: the unit's image runs."),
    ] = UNSET
    framework: Annotated[
        Framework | UnsetType | None,
        Meta(description="Where a worker finds the user's framework; replaced as a whole."),
    ] = UNSET
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | UnsetType | None,
        Meta(description="Invocations that one worker takes at the same time."),
    ] = UNSET
    minWorkers: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | UnsetType | None, Meta(description="Workers to keep even without work.")
    ] = UNSET
    maxWorkers: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | UnsetType | None, Meta(description="Workers at most.")
    ] = UNSET
    idleTimeoutSeconds: Annotated[
        Seconds | UnsetType | None,
        Meta(description="Seconds without work after which a worker above minWorkers is removed."),
    ] = UNSET
    invocationTimeoutSeconds: Annotated[
        Annotated[int, Meta(ge=1, le=86400)] | UnsetType | None,
        Meta(description="Seconds that one invocation may run, unless it brings a limit of its own."),
    ] = UNSET
    queueLimit: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType | None,
        Meta(description="Unfinished invocations at most; further ones are refused until some end."),
    ] = UNSET
    retry: Annotated[RetryPolicy | UnsetType | None, Meta(description="What happens to an invocation that failed.")] = (
        UNSET
    )
