"""The REST views of functions."""

from __future__ import annotations

from msgspec.structs import replace

from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.rest.function_views import FunctionView, HandlerView
from gpu_runtime.service.views import reported_status


def function_view(function: GPUFunction) -> FunctionView:
    """The function as it is now, with the source of its handler."""
    meta, spec, status = function.metadata, function.spec, function.status
    reported = reported_status(function)
    handler = spec.handler
    return FunctionView(
        name=meta.name,
        namespace=meta.namespace,
        unit=spec.unit,
        handler=HandlerView(entry=handler.entry, source=handler.source) if handler is not None else None,
        framework=spec.framework,
        concurrency=spec.concurrency,
        minWorkers=spec.minWorkers,
        maxWorkers=spec.maxWorkers,
        idleTimeoutSeconds=spec.idleTimeoutSeconds,
        invocationTimeoutSeconds=spec.invocationTimeoutSeconds,
        queueLimit=spec.queueLimit,
        retry=spec.retry,
        phase=reported.phase,
        reason=reported.reason,
        message=reported.message,
        workers=status.workers,
        readyWorkers=status.readyWorkers,
        generation=meta.generation,
        observedGeneration=status.observedGeneration,
        operationID=meta.annotations.get(notes.OPERATION_ID, ""),
        owner=meta.labels.get(labels.OWNER, ""),
        createdAt=meta.creationTimestamp,
        deletingSince=meta.deletionTimestamp,
        resourceVersion=meta.resourceVersion,
    )


def listed_function(function: GPUFunction) -> FunctionView:
    """The function as lists and watches show it: without the source, which may be large."""
    view = function_view(function)
    return replace(view, handler=replace(view.handler, source="")) if view.handler is not None else view
