"""What a unit is, by where it lives."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.config import ControllerManagerSettings


def is_stock(unit: GPUUnit, settings: ControllerManagerSettings) -> bool:
    """Whether the unit is a reservation."""
    return unit.metadata.namespace in settings.stock.namespaces
