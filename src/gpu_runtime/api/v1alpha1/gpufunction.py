"""GPUFunction: a serverless function. Its workers are GPU units that start and stop with its queue."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.fields import (
    Conditions,
    Count,
    GpuCount,
    ImageReference,
    LastSyncTime,
    ObservedGeneration,
    QuantityText,
    Seconds,
    SpecName,
)
from gpu_runtime.api.v1alpha1.group import API_VERSION
from gpu_runtime.api.v1alpha1.serverless import Framework
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate

SOURCE_LENGTH = 256 * 1024
NAME_LENGTH = 40  # names of workers are made from it

GPUFunctionPhase = Literal["Idle", "Progressing", "Ready", "Failed"]


class WorkerUnit(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The unit that runs as each worker. It has no storages: a storage belongs to one unit, and workers are many."""

    specName: Annotated[SpecName, Meta(description="Flavour of the workers, such as g1.1.")]
    image: Annotated[
        ImageReference | None,
        Meta(description="Container image with the user's framework. Required unless the function has a handler."),
    ] = None
    cpu: Annotated[
        QuantityText | None, Meta(description="CPU of each worker, such as 4 or 500m: request and limit.")
    ] = None
    memory: Annotated[
        QuantityText | None, Meta(description="Memory of each worker, such as 16Gi: request and limit.")
    ] = None
    gpu: Annotated[GpuCount, Meta(description="GPUs of each worker: request and limit of nvidia.com/gpu.")] = 0
    template: Annotated[RuntimeTemplate, Meta(description="What runs inside each worker's container.")] = EMPTY_TEMPLATE


class Handler(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The function as Python source. It runs on the platform's own image, so it needs no image of its own."""

    source: Annotated[str, Meta(min_length=1, max_length=SOURCE_LENGTH, description="A Python module, up to 256 KiB.")]
    entry: Annotated[
        str,
        Meta(
            max_length=128,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            description="The function of the module that is called with each payload.",
            extra={"hint": "the name of a Python function"},
        ),
    ] = "main"


class RetryPolicy(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happens to an invocation that failed in a way that another try may cure."""

    maxAttempts: Annotated[
        int, Meta(ge=1, le=100, description="Tries in all. After the last one the invocation goes to the dead letters.")
    ] = 5
    backoffSeconds: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=86400)], ...],
        Meta(
            max_length=16,
            description="Seconds to wait before each further try; the last entry counts for all later ones.",
        ),
    ] = (2, 10, 30)


class GPUFunctionSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the workers are, how many there may be, and how invocations are treated."""

    unit: Annotated[WorkerUnit, Meta(description="The unit that each worker is.")]
    handler: Annotated[
        Handler | None, Meta(description="The function as source, in place of an image and a template of the unit.")
    ] = None
    framework: Annotated[
        Framework, Meta(description="Where a worker finds the user's framework inside the container.")
    ] = field(default_factory=Framework)
    concurrency: Annotated[
        int, Meta(ge=1, le=1000, description="Invocations that one worker takes at the same time.")
    ] = 1
    minWorkers: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Workers to keep even without work. From 0 the next invocation waits for one to start.",
        ),
    ] = 0
    maxWorkers: Annotated[
        int, Meta(ge=1, le=1000, description="Workers at most. What they cannot take waits in the queue.")
    ] = 1
    idleTimeoutSeconds: Annotated[
        Seconds, Meta(description="Seconds without work after which a worker above minWorkers is removed.")
    ] = 300
    invocationTimeoutSeconds: Annotated[
        int,
        Meta(ge=1, le=86400, description="Seconds that one invocation may run, unless it brings a limit of its own."),
    ] = 600
    queueLimit: Annotated[
        int,
        Meta(
            ge=1, le=1_000_000, description="Unfinished invocations at most; further ones are refused until some end."
        ),
    ] = 10_000
    retry: Annotated[RetryPolicy, Meta(description="What happens to an invocation that failed.")] = field(
        default_factory=RetryPolicy
    )


class GPUFunctionStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the activator last saw of the function."""

    phase: Annotated[
        GPUFunctionPhase | None,
        Meta(description="Idle (scaled to zero), Progressing, Ready or Failed. The Ready condition says why."),
    ] = None
    workers: Annotated[Count, Meta(description="Workers that exist.")] = 0
    readyWorkers: Annotated[Count, Meta(description="Workers that take invocations.")] = 0
    observedGeneration: ObservedGeneration = 0
    lastSyncTime: LastSyncTime = None
    conditions: Conditions = []


class GPUFunction(Struct, frozen=True, kw_only=True):
    """A serverless function: invocations wait in a queue, and workers come and go with it."""

    apiVersion: str = API_VERSION
    kind: str = "GPUFunction"
    metadata: ObjectMeta
    spec: Annotated[GPUFunctionSpec, Meta(description="What the function should be.")]
    status: Annotated[GPUFunctionStatus, Meta(description="What the function is; written by the activator.")] = (
        GPUFunctionStatus()
    )
