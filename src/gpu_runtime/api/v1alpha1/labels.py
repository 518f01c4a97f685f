"""Labels on our objects and on their children."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.group import GROUP

APP_NAME = "app.kubernetes.io/name"
MANAGED_BY = "app.kubernetes.io/managed-by"

STOCK_POOL_APP = "gpu-runtime-stockpool"
GPU_UNIT_APP = "gpu-runtime-unit"
GPU_STORAGE_APP = "gpu-runtime-storage"
GPU_FUNCTION_APP = "gpu-runtime-function"
MANAGER = "gpu-runtime-operator"  # value of MANAGED_BY

POOL = f"{GROUP}/pool"
UNIT = f"{GROUP}/unit"
STORAGE = f"{GROUP}/storage"
STORAGE_PREPARE = f"{GROUP}/storage-prepare"
STORAGE_ACCESSOR = f"{GROUP}/storage-accessor"
FUNCTION = f"{GROUP}/function"
SPEC_NAME = f"{GROUP}/spec-name"
OPERATION = f"{GROUP}/operation"  # name of the Operation that made the object
UNFINISHED = f"{GROUP}/unfinished"  # on an Operation until it is finished: caches hold only unfinished ones
OWNER = f"{GROUP}/owner"  # name of the token that asked for the object
