"""Our own kinds, as the API serves them."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.crds import GPU_STORAGE, GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.kube.resource import Resource

STOCK_POOLS = Resource.of(STOCK_POOL)
GPU_UNITS = Resource.of(GPU_UNIT)
GPU_STORAGES = Resource.of(GPU_STORAGE)
OPERATIONS = Resource.of(OPERATION)
