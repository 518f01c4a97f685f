"""Rules across fields of a GPUFunction's spec. For requests and for objects written with kubectl."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_runtime.api.v1alpha1.gpufunction import GPUFunctionSpec, WorkerUnit
from gpu_runtime.api.v1alpha1.handler_source import source_error
from gpu_runtime.api.v1alpha1.rules import template_errors
from gpu_runtime.api.v1alpha1.worker_pod import HEALTH_PORT
from gpu_runtime.api.validation import FieldError


def function_errors(spec: GPUFunctionSpec) -> Iterator[FieldError]:
    """Errors of a spec whose single fields are valid."""
    unit, handler = spec.unit, spec.handler
    if handler is None and unit.image is None:
        yield FieldError("unit.image", "is required unless the function has a handler: which image runs the framework?")
    if handler is not None:
        if unit.image is not None:
            yield FieldError("unit.image", "cannot stand beside handler, which runs on the platform's own image")
        if unit.template.command or unit.template.args:
            yield FieldError("unit.template", "command and args cannot stand beside handler, which is what runs")
        if problem := source_error(handler.source, handler.entry):
            yield FieldError("handler.source", problem)
    yield from _template_errors(unit)
    if spec.minWorkers > spec.maxWorkers:
        yield FieldError("minWorkers", f"{spec.minWorkers} is more than maxWorkers, which is {spec.maxWorkers}")


def _template_errors(unit: WorkerUnit) -> Iterator[FieldError]:
    for error in template_errors(unit.template):
        yield FieldError(f"unit.{error.field}", error.message)
    for index, port in enumerate(unit.template.ports):
        if port.port == HEALTH_PORT:
            yield FieldError(f"unit.template.ports[{index}].port", f"{HEALTH_PORT} is the platform's own in a worker")
