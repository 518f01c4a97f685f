"""The response types."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.gpustorage import AccessorPhase, PreparePhase, RecoveryPhase
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.serverless import DEFAULT_FRAMEWORK, Framework, HandlerSource, ServerlessPhase
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate

JobType = Literal[
    "create_stockpool", "seed_stock_units", "create_gpu_unit", "create_gpu_storage", "create_gpu_function"
]
JobStatus = Literal["pending", "running", "succeeded", "failed"]
Lifecycle = Literal["stock", "instance"]

Phase = Annotated[
    str,
    Meta(
        description="Phase for the current spec. Pending until the controller has processed the object, Progressing "
        "until it has processed the last change of the spec."
    ),
]
Generation = Annotated[
    int, Meta(description="Counts changes of the spec; the status describes the spec of observedGeneration.")
]


class Job(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The progress of an operation: whether its objects are persisted, not whether a runtime is ready."""

    operationID: str
    type: JobType
    status: Annotated[JobStatus, Meta(description="Succeeded means that all objects are persisted.")]
    error: Annotated[str, Meta(description="Why the operation failed, and what to do.")] = ""
    objectName: Annotated[
        str, Meta(description="Name of the created object; for stock units, the prefix of their names.")
    ] = ""
    objectNamespace: str = ""
    createdAt: datetime | None = None
    updatedAt: datetime | None = None
    deleted: Annotated[
        bool, Meta(description="Whether the object has been deleted. The operation does not create it again.")
    ] = False


class StockPoolView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A stock pool as it is now."""

    name: str
    namespace: str
    specName: str
    image: str = ""
    memory: str = ""
    gpu: int = 0
    replicas: int
    template: RuntimeTemplate = EMPTY_TEMPLATE
    phase: Phase = ""
    available: int = 0
    allocated: int = 0
    serviceName: str = ""
    reason: Annotated[str, Meta(description="Of the Ready condition, or AwaitingController.")] = ""
    message: Annotated[str, Meta(description="Of the Ready condition: the cause, in words.")] = ""
    generation: Generation = 0
    observedGeneration: int = 0
    operationID: str = ""
    owner: str = ""
    createdAt: datetime | None = None
    deletingSince: datetime | None = None
    resourceVersion: str = ""


class ServerlessView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The part of a unit in a serverless function."""

    enabled: bool
    requestID: Annotated[str, Meta(description="The function whose invocations the unit takes.")] = ""
    concurrency: int
    framework: Framework = DEFAULT_FRAMEWORK
    handler: HandlerSource | None = None
    phase: Annotated[ServerlessPhase, Meta(description="Ready: the unit takes invocations.")]
    reason: Annotated[str, Meta(description="Of the ServerlessReady condition.")] = ""
    message: Annotated[str, Meta(description="Of the ServerlessReady condition: the cause, in words.")] = ""


class UnitView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A GPU unit as it is now: a user's instance, or stock."""

    name: str
    namespace: str
    lifecycle: Lifecycle = "instance"
    specName: str = ""
    image: str = ""
    cpu: str = ""
    memory: str = ""
    gpu: int = 0
    template: RuntimeTemplate = EMPTY_TEMPLATE
    access: Access = DEFAULT_ACCESS
    storageMounts: list[StorageMount] = []
    serverless: Annotated[ServerlessView | None, Meta(description="Absent if the unit is no serverless worker.")] = None
    phase: Phase = ""
    reason: Annotated[str, Meta(description="Of the Ready condition, or AwaitingController.")] = ""
    message: Annotated[str, Meta(description="Of the Ready condition: the cause, in words.")] = ""
    readyReplicas: int = 0
    generation: Generation = 0
    observedGeneration: int = 0
    serviceName: str = ""
    accessURL: Annotated[str, Meta(description="Where users reach the unit.")] = ""
    nodeName: str = ""
    sourceStockName: Annotated[str, Meta(description="The stock unit that this unit consumed.")] = ""
    sourceStockNamespace: str = ""
    claimed: Annotated[bool, Meta(description="For stock: whether a hand-over is running.")] = False
    operationID: str = ""
    owner: str = ""
    createdAt: datetime | None = None
    deletingSince: datetime | None = None
    deleted: Annotated[
        bool, Meta(description="In the response to a replay: the unit was created and has been deleted.")
    ] = False
    resourceVersion: Annotated[str, Meta(description="Send it as If-Match to change exactly this version.")] = ""


class HolderView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The one holder of a storage: a unit, or another storage that copies from it."""

    unit: Annotated[str, Meta(description="Name of the unit, in the namespace of the storage.")] = ""
    storage: Annotated[str, Meta(description="Name of the storage that is being filled from this one.")] = ""
    since: datetime | None = None


class PrepareView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the volume is filled before its first use, and how far that is."""

    fromImage: str = ""
    fromStorageName: str = ""
    command: list[str] = []
    args: list[str] = []
    phase: Annotated[PreparePhase, Meta(description="After Failed, send a recover request to try again.")]
    recoveryPhase: RecoveryPhase = "None"
    message: Annotated[str, Meta(description="What it does, or why it failed: exit code and last line.")] = ""
    jobName: Annotated[str, Meta(description="Job that fills the volume; the log of its pod tells more.")] = ""
    filesCopied: int = 0
    filesTotal: int = 0
    bytesCopied: int = 0
    bytesTotal: int = 0
    startedAt: datetime | None = None
    completedAt: datetime | None = None


class AccessorView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Read access to the files over HTTP. It stops while a unit holds the storage."""

    enabled: bool
    phase: AccessorPhase
    accessURL: Annotated[str, Meta(description="Where the files can be read.")] = ""
    reason: Annotated[str, Meta(description="Of the AccessorReady condition.")] = ""
    message: Annotated[str, Meta(description="Of the AccessorReady condition: the cause, in words.")] = ""


class StorageView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A storage as it is now."""

    name: str
    namespace: str
    size: Annotated[str, Meta(description="The size that was asked for.")] = ""
    capacity: Annotated[str, Meta(description="The size that the volume has; follows the size when it grows.")] = ""
    claimName: Annotated[str, Meta(description="PersistentVolumeClaim that holds the data.")] = ""
    storageClassName: str = ""
    phase: Phase = ""
    reason: Annotated[str, Meta(description="Of the Ready condition, or AwaitingController.")] = ""
    message: Annotated[str, Meta(description="Of the Ready condition: the cause, in words.")] = ""
    mountable: Annotated[bool, Meta(description="Whether a unit that mounts the storage can start.")] = False
    attachedTo: Annotated[HolderView | None, Meta(description="Who holds the storage; absent if it is free.")] = None
    prepare: Annotated[PrepareView | None, Meta(description="Absent if the volume began empty.")] = None
    accessor: Annotated[AccessorView | None, Meta(description="Absent if it is off.")] = None
    generation: Generation = 0
    observedGeneration: int = 0
    operationID: str = ""
    owner: str = ""
    createdAt: datetime | None = None
    deletingSince: Annotated[
        datetime | None, Meta(description="When the deletion began. The data is deleted when nobody holds the storage.")
    ] = None
    deleted: Annotated[
        bool, Meta(description="In the response to a replay: the storage was created and has been deleted.")
    ] = False
    resourceVersion: Annotated[str, Meta(description="Send it as If-Match to change exactly this version.")] = ""


class EventView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An event of a unit, its workload or its pods."""

    object: Annotated[str, Meta(description="Kind and name, such as Pod/demo-5d9c.")]
    type: str
    reason: str
    message: str
    count: int = 1
    source: str = ""
    firstAt: datetime | None = None
    lastAt: datetime | None = None


class NodeView(Struct, frozen=True, kw_only=True):
    """One node."""

    name: str
    ready: bool
    schedulable: bool
    gpuProduct: str
    gpuCapacity: int
    gpuAllocatable: int


class SpecView(Struct, frozen=True, kw_only=True):
    """One flavour: its size, its stock and the units made from it."""

    specName: str
    cpu: str
    memory: str
    gpu: int
    handOverNow: Annotated[int, Meta(description="Stock that can be handed over now.")]
    stock: Annotated[dict[str, int], Meta(description="Stock by state, such as ready or claimed.")]
    units: Annotated[dict[str, int], Meta(description="Users' units by phase.")]


class InventoryView(Struct, frozen=True, kw_only=True):
    """Nodes, GPUs, stock and units of the platform."""

    nodeCount: int
    readyNodeCount: int
    totalGPUCapacity: int
    totalGPUAllocatable: int
    nodes: list[NodeView]
    specs: list[SpecView]


class HealthView(Struct, frozen=True, kw_only=True):
    """Whether this process can work, and some numbers."""

    status: Annotated[str, Meta(description="ok, or degraded while a part of the process does not work.")]
    startedAt: datetime
    uptimeSeconds: int
    kubernetesConnected: bool
    problems: Annotated[dict[str, str], Meta(description="The parts that do not work, and why.")]
    nodeCount: int
    readyNodeCount: int
    totalGPUCapacity: int
    totalGPUAllocatable: int
    stockPoolCount: int
    stockUnitCount: int
    activeUnitCount: int
