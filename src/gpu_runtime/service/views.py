"""Builds the REST views of cluster objects."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, PrepareStatus
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation, OperationPhase
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.api.v1alpha1.reasons import ACCESSOR_READY, READY, SERVERLESS_READY
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS, ServerlessPhase
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.rest.views import (
    AccessorView,
    HolderView,
    Job,
    JobStatus,
    PrepareView,
    ServerlessView,
    StockPoolView,
    StorageView,
    UnitView,
)
from gpu_runtime.service.operations.executor import AnyExecutor

AWAITING_CONTROLLER = "AwaitingController"


class ReportedStatus(NamedTuple):
    """Phase, reason and message as clients see them."""

    phase: str
    reason: str
    message: str


def reported_status(obj: GPUUnit | StockPool | GPUStorage | GPUFunction) -> ReportedStatus:
    """Phase, reason and message for the current spec. A status about an earlier spec is not shown."""
    generation, status = obj.metadata.generation, obj.status
    if not status.phase:
        return ReportedStatus("Pending", AWAITING_CONTROLLER, "the controller has not processed it yet")
    if status.observedGeneration < generation:
        change = f"the controller has not processed the last spec change (generation {generation}) yet"
        return ReportedStatus("Progressing", AWAITING_CONTROLLER, change)
    ready = find_condition(status.conditions, READY)
    return ReportedStatus(status.phase, ready.reason if ready else "", ready.message if ready else "")


def job_view(operation: Operation, executor: AnyExecutor, *, deleted: bool = False) -> Job:
    """The operation as its client sees it."""
    made = executor.object_key(operation)
    return Job(
        operationID=operation.spec.operationID,
        type=executor.job_type,
        status=job_status(operation.status.phase),
        error=operation.status.error.message if operation.status.error else "",
        objectName=made.name,
        objectNamespace=made.namespace,
        createdAt=operation.metadata.creationTimestamp,
        updatedAt=operation.status.lastSyncTime or operation.metadata.creationTimestamp,
        deleted=deleted or operation.status.deletionTime is not None,
    )


def job_status(phase: OperationPhase) -> JobStatus:
    match phase:
        case "Pending":
            return "pending"
        case "Running":
            return "running"
        case "Succeeded":
            return "succeeded"
        case "Failed":
            return "failed"
        case _:
            assert_never(phase)


def pool_view(pool: StockPool) -> StockPoolView:
    meta, spec, status = pool.metadata, pool.spec, pool.status
    reported = reported_status(pool)
    return StockPoolView(
        name=meta.name,
        namespace=meta.namespace,
        specName=spec.specName,
        image=spec.image or "",
        memory=spec.memory or "",
        gpu=spec.gpu,
        replicas=spec.replicas,
        template=spec.template,
        phase=reported.phase,
        available=status.available,
        allocated=status.allocated,
        serviceName=status.serviceName,
        reason=reported.reason,
        message=reported.message,
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
    reported = reported_status(unit)
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
        storageMounts=spec.storageMounts,
        serverless=_serverless_view(unit),
        phase=reported.phase,
        reason=reported.reason,
        message=reported.message,
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


def _serverless_view(unit: GPUUnit) -> ServerlessView | None:
    spec, status = unit.spec.serverless, unit.status.serverless
    if spec == NOT_SERVERLESS:
        return None
    # A status about an earlier spec is not shown.
    is_current = status is not None and unit.status.observedGeneration >= unit.metadata.generation
    phase: ServerlessPhase = status.phase if status is not None and is_current else "Pending"
    ready = find_condition(unit.status.conditions, SERVERLESS_READY) if is_current else None
    return ServerlessView(
        enabled=spec.enabled,
        requestID=spec.requestID or "",
        concurrency=spec.concurrency,
        framework=spec.framework,
        handler=spec.handler,
        phase=phase if spec.enabled else "Disabled",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
    )


def storage_view(storage: GPUStorage) -> StorageView:
    meta, spec, status = storage.metadata, storage.spec, storage.status
    reported = reported_status(storage)
    return StorageView(
        name=meta.name,
        namespace=meta.namespace,
        size=spec.size,
        capacity=status.capacity,
        claimName=status.claimName,
        storageClassName=spec.storageClassName,
        phase=reported.phase,
        reason=reported.reason,
        message=reported.message,
        mountable=status.mountable,
        attachedTo=_holder_view(storage),
        prepare=_prepare_view(storage),
        accessor=_accessor_view(storage),
        generation=meta.generation,
        observedGeneration=status.observedGeneration,
        operationID=meta.annotations.get(notes.OPERATION_ID, ""),
        owner=meta.labels.get(labels.OWNER, ""),
        createdAt=meta.creationTimestamp,
        deletingSince=meta.deletionTimestamp,
        resourceVersion=meta.resourceVersion,
    )


def _holder_view(storage: GPUStorage) -> HolderView | None:
    holder = attachment_of(storage.metadata)  # the annotation decides; the status may be out of date
    return HolderView(unit=holder.unit, storage=holder.storage, since=holder.since) if holder is not None else None


def _prepare_view(storage: GPUStorage) -> PrepareView | None:
    spec, status = storage.spec.prepare, storage.status.prepare
    if spec is None:
        return None
    if status is None or (status.phase != "Succeeded" and status.observedDigest not in ("", prepare_digest(storage))):
        # The controller has not processed this prepare yet. A failure before a recovery is not shown; a success is
        # final, even if somebody asks for a recovery with kubectl.
        recovers = notes.STORAGE_RECOVERY_NONCE in storage.metadata.annotations
        status = PrepareStatus(phase="Pending", recoveryPhase="Running" if recovers else "None")
    return PrepareView(
        fromImage=spec.fromImage or "",
        fromStorageName=spec.fromStorageName or "",
        command=spec.command,
        args=spec.args,
        phase=status.phase,
        recoveryPhase=status.recoveryPhase,
        message=status.message,
        jobName=status.jobName,
        filesCopied=status.filesCopied,
        filesTotal=status.filesTotal,
        bytesCopied=status.bytesCopied,
        bytesTotal=status.bytesTotal,
        startedAt=status.startTime,
        completedAt=status.completionTime,
    )


def _accessor_view(storage: GPUStorage) -> AccessorView | None:
    if not storage.spec.accessor.enabled:
        return None
    status = storage.status.accessor
    if status is None or status.phase == "Disabled":
        return AccessorView(enabled=True, phase="Pending")  # the controller has not processed the change yet
    ready = find_condition(storage.status.conditions, ACCESSOR_READY)
    return AccessorView(
        enabled=True,
        phase=status.phase,
        accessURL=status.accessURL,
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
    )
