"""What clients get to see."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation, OperationPhase, OperationType
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate
from gpu_runtime.service.operations import batch_of

JobType = Literal["create_stockpool", "seed_stock_units", "create_gpu_unit"]
JobStatus = Literal["pending", "running", "succeeded", "failed"]
Lifecycle = Literal["stock", "instance"]

JOB_TYPES: dict[OperationType, JobType] = {
    "CreateStockPool": "create_stockpool",
    "CreateStockUnits": "seed_stock_units",
    "CreateGPUUnit": "create_gpu_unit",
}
OPERATION_TYPES: dict[str, OperationType] = {job: operation for operation, job in JOB_TYPES.items()}
_STATUS: dict[OperationPhase, JobStatus] = {
    "Pending": "pending",
    "Running": "running",
    "Succeeded": "succeeded",
    "Failed": "failed",
}

AWAITING_CONTROLLER = "AwaitingController"

Phase = Annotated[
    str,
    Meta(
        description="Of the current spec. Pending before the controller has looked at the object, Progressing while it "
        "has not acted on the last change of the spec."
    ),
]
Generation = Annotated[
    int, Meta(description="Counts changes of the spec; the status describes the spec of observedGeneration.")
]


class Shown(NamedTuple):
    """Phase, reason and message as clients see them."""

    phase: str
    reason: str
    message: str


def shown(obj: GPUUnit | StockPool) -> Shown:
    """Phase, reason and message for the current spec. A status about an earlier spec is not shown."""
    generation, status = obj.metadata.generation, obj.status
    if not status.phase:
        return Shown("Pending", AWAITING_CONTROLLER, "the controller has not looked at it yet")
    if status.observedGeneration < generation:
        change = f"the controller has not acted on the last change of the spec (generation {generation}) yet"
        return Shown("Progressing", AWAITING_CONTROLLER, change)
    ready = find_condition(status.conditions, READY)
    return Shown(status.phase, ready.reason if ready else "", ready.message if ready else "")


class Job(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far an operation is: what was persisted, never whether a runtime is ready."""

    operationID: str
    type: JobType
    status: Annotated[JobStatus, Meta(description="Succeeded means that all objects are persisted.")]
    error: Annotated[str, Meta(description="Why it failed, and what can be done.")] = ""
    objectName: Annotated[
        str, Meta(description="The object that it makes; for stock units, what their names begin with.")
    ] = ""
    objectNamespace: str = ""
    createdAt: datetime | None = None
    updatedAt: datetime | None = None
    deleted: Annotated[
        bool, Meta(description="Whether the object was deleted since. The operation does not make it again.")
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
    phase: Phase = ""
    reason: Annotated[str, Meta(description="Of the Ready condition, or AwaitingController.")] = ""
    message: Annotated[str, Meta(description="Of the Ready condition: the cause, in words.")] = ""
    readyReplicas: int = 0
    generation: Generation = 0
    observedGeneration: int = 0
    serviceName: str = ""
    accessURL: Annotated[str, Meta(description="Where users reach the unit.")] = ""
    nodeName: str = ""
    sourceStockName: Annotated[str, Meta(description="The stock unit that it consumed.")] = ""
    sourceStockNamespace: str = ""
    claimed: Annotated[bool, Meta(description="Of stock: whether a hand-over is under way.")] = False
    operationID: str = ""
    owner: str = ""
    createdAt: datetime | None = None
    deletingSince: datetime | None = None
    deleted: Annotated[
        bool, Meta(description="In the answer to a replay: the unit was made and has been deleted since.")
    ] = False
    resourceVersion: Annotated[str, Meta(description="Send it as If-Match to change exactly this version.")] = ""


def job_view(operation: Operation, *, deleted: bool = False) -> Job:
    """The operation as its client sees it."""
    made = operation.status.objects[0] if operation.status.objects else batch_of(operation)
    return Job(
        operationID=operation.spec.operationID,
        type=JOB_TYPES[operation.spec.type],
        status=_STATUS[operation.status.phase],
        error=operation.status.error.message if operation.status.error else "",
        objectName=made.name,
        objectNamespace=made.namespace,
        createdAt=operation.metadata.creationTimestamp,
        updatedAt=operation.status.lastSyncTime or operation.metadata.creationTimestamp,
        deleted=deleted or operation.status.deletionTime is not None,
    )


def pool_view(pool: StockPool) -> StockPoolView:
    meta, spec, status = pool.metadata, pool.spec, pool.status
    told = shown(pool)
    return StockPoolView(
        name=meta.name,
        namespace=meta.namespace,
        specName=spec.specName,
        image=spec.image or "",
        memory=spec.memory or "",
        gpu=spec.gpu,
        replicas=spec.replicas,
        template=spec.template,
        phase=told.phase,
        available=status.available,
        allocated=status.allocated,
        serviceName=status.serviceName,
        reason=told.reason,
        message=told.message,
        generation=meta.generation,
        observedGeneration=status.observedGeneration,
        operationID=meta.annotations.get(notes.OPERATION_ID, ""),
        owner=meta.labels.get(labels.OWNER, ""),
        createdAt=meta.creationTimestamp,
        deletingSince=meta.deletionTimestamp,
        resourceVersion=meta.resourceVersion,
    )


def unit_view(unit: GPUUnit, stock_namespace: str) -> UnitView:
    meta, spec, status = unit.metadata, unit.spec, unit.status
    told = shown(unit)
    return UnitView(
        name=meta.name,
        namespace=meta.namespace,
        lifecycle="stock" if meta.namespace == stock_namespace else "instance",
        specName=spec.specName,
        image=spec.image or "",
        cpu=spec.cpu or "",
        memory=spec.memory or "",
        gpu=spec.gpu,
        template=spec.template,
        access=spec.access,
        phase=told.phase,
        reason=told.reason,
        message=told.message,
        readyReplicas=status.readyReplicas,
        generation=meta.generation,
        observedGeneration=status.observedGeneration,
        serviceName=status.serviceName,
        accessURL=status.accessURL,
        nodeName=status.nodeName,
        sourceStockName=meta.annotations.get(notes.SOURCE_STOCK_NAME, ""),
        sourceStockNamespace=meta.annotations.get(notes.SOURCE_STOCK_NAMESPACE, ""),
        claimed=notes.CLAIMED_BY in meta.annotations,
        operationID=meta.annotations.get(notes.OPERATION_ID, ""),
        owner=meta.labels.get(labels.OWNER, ""),
        createdAt=meta.creationTimestamp,
        deletingSince=meta.deletionTimestamp,
        resourceVersion=meta.resourceVersion,
    )
