"""The unit that is a worker of a function."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from gpu_runtime.activator.resources import names
from gpu_runtime.activator.resources.children import child_labels, owned_by
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1 import annotations as notes
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, WorkerUnit
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.serverless import HandlerSource, Serverless
from gpu_runtime.rest.requests import CreateGPUUnit


def serverless(function: GPUFunction) -> Serverless:
    spec = function.spec
    handler = spec.handler
    return Serverless(
        enabled=True,
        requestID=function.metadata.name,
        concurrency=spec.concurrency,
        framework=spec.framework,
        handler=HandlerSource(configMapName=names.handler(function), entry=handler.entry) if handler else None,
    )


def cold_unit(function: GPUFunction, slot: int) -> GPUUnit:
    """A worker that is made without stock."""
    unit, name = function.spec.unit, names.worker(function.metadata.name, slot)
    return GPUUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=function.metadata.namespace,
            labels=worker_labels(function, name),
            ownerReferences=[owned_by(function)],
        ),
        spec=GPUUnitSpec(
            specName=unit.specName,
            image=unit.image,
            cpu=unit.cpu,
            memory=unit.memory,
            gpu=unit.gpu,
            template=unit.template,
            serverless=serverless(function),
        ),
    )


def worker_labels(function: GPUFunction, name: str) -> dict[str, str]:
    return {
        **child_labels(function.metadata.name),
        labels.APP_NAME: labels.GPU_UNIT_APP,
        labels.UNIT: name,
        labels.SPEC_NAME: function.spec.unit.specName,
    }


def stock_request(function: GPUFunction, slot: int, random: str) -> CreateGPUUnit:
    """The request that hands over stock to a worker. The stock sets the size."""
    return CreateGPUUnit(
        operationID=names.operation(function.metadata.uid, slot, random),
        name=names.worker(function.metadata.name, slot),
        namespace=function.metadata.namespace,
        specName=function.spec.unit.specName,
        image=function.spec.unit.image,
        template=function.spec.unit.template,
        serverless=serverless(function),
    )


def is_made_for(unit: GPUUnit, function_uid: str) -> bool:
    """Whether the unit is a worker of the function: by its owner, or by the operation that handed over its stock."""
    owner = unit.metadata.controller
    if owner is not None:
        return owner.uid == function_uid
    return unit.metadata.annotations.get(notes.OPERATION_ID, "").startswith(names.operations_of(function_uid))


def changed(function: GPUFunction, unit: GPUUnit) -> GPUUnit:
    """The unit as the function now wants it, as far as a unit can change."""
    wanted = function.spec.unit
    spec = replace(unit.spec, image=wanted.image, template=wanted.template, serverless=serverless(function))
    return replace(unit, spec=spec)


def outdated(function: GPUFunction, unit: GPUUnit) -> Literal["", "patch", "replace"]:
    """Whether the unit is another one than the function asks for, and whether it can be changed in place."""
    if unit.spec.specName != function.spec.unit.specName or not fits(function.spec.unit, unit.spec):
        return "replace"
    return "patch" if changed(function, unit).spec != unit.spec else ""


def fits(wanted: WorkerUnit, spec: GPUUnitSpec) -> bool:
    """Whether a unit has the size that the function names. A size that it does not name comes from the stock."""
    return (
        wanted.gpu == spec.gpu
        and (wanted.cpu is None or _same(wanted.cpu, spec.cpu))
        and (wanted.memory is None or _same(wanted.memory, spec.memory))
    )


def _same(wanted: str, actual: str | None) -> bool:
    try:
        return actual is not None and Quantity.parse(wanted) == Quantity.parse(actual)
    except ValueError:
        return wanted == actual
