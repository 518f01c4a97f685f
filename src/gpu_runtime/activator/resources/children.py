"""What all objects that a function owns have in common."""

from __future__ import annotations

from gpu_runtime.activator.kinds import GPU_FUNCTIONS
from gpu_runtime.api.meta.object import OwnerReference, controller_reference
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction

SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER},{labels.FUNCTION}"
"""Selects the children of all functions."""


def child_labels(function: str) -> dict[str, str]:
    return {
        labels.APP_NAME: labels.GPU_FUNCTION_APP,
        labels.MANAGED_BY: labels.MANAGER,
        labels.FUNCTION: function,
    }


def owned_by(function: GPUFunction) -> OwnerReference:
    return controller_reference(GPU_FUNCTIONS.api_version, GPU_FUNCTIONS.kind, function.metadata)
