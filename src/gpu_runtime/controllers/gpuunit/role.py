"""Whether a unit is stock or active: its namespace decides."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.config import ControllerManagerSettings


def is_stock(unit: GPUUnit, settings: ControllerManagerSettings) -> bool:
    """Whether the unit is stock."""
    return unit.metadata.namespace in settings.stock.namespaces
