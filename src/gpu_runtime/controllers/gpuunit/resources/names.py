"""Names and labels of a unit's children."""

from __future__ import annotations

from gpu_runtime.api.meta.object import ObjectMeta, controller_reference
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import GPU_UNIT_APP, UNIT
from gpu_runtime.controllers.labels import child_labels
from gpu_runtime.controllers.product_kinds import GPU_UNITS


def labels(unit: GPUUnit) -> dict[str, str]:
    return child_labels(GPU_UNIT_APP, UNIT, unit.metadata.name)


def selector(unit: GPUUnit) -> dict[str, str]:
    return {UNIT: unit.metadata.name}


def child_meta(unit: GPUUnit, annotations: dict[str, str] | None = None) -> ObjectMeta:
    owner = controller_reference(GPU_UNITS.api_version, GPU_UNITS.kind, unit.metadata)
    return ObjectMeta(
        name=unit.metadata.name,
        namespace=unit.metadata.namespace,
        labels=labels(unit),
        annotations=annotations or {},
        ownerReferences=[owner],
    )
