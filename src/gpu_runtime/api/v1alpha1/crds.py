"""The five kinds, with what their CustomResourceDefinitions need."""

from __future__ import annotations

from typing import Any

from gpu_runtime.api.kind import AGE, Column, Kind, NameRule, Scale
from gpu_runtime.api.meta.names import DNS1035_LABEL, DNS1123_LABEL, LABEL_LENGTH
from gpu_runtime.api.v1alpha1.gpufunction import NAME_LENGTH, GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.group import GROUP, VERSION
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool

CATEGORY = "gpu"  # `kubectl get gpu` lists all kinds

# The name is copied to label values and to names of children, which have these limits.
_LABEL = NameRule(DNS1123_LABEL, LABEL_LENGTH)
# The Service of a unit has the name of the unit.
_SERVICE = NameRule(DNS1035_LABEL, LABEL_LENGTH)
# Names of its workers, which are units, are made from it.
_FUNCTION = NameRule(DNS1035_LABEL, NAME_LENGTH)

_SPEC = Column("Spec", ".spec.specName", description="Flavour, such as g1.1.")
_PHASE = Column("Phase", ".status.phase", description="State in one word.")
_IMAGE = Column("Image", ".spec.image", description="Container image.", priority=1)

STOCK_POOL = Kind(
    GROUP,
    VERSION,
    "StockPool",
    "stockpools",
    StockPool,
    singular="stockpool",
    short_names=("sp",),
    categories=(CATEGORY,),
    columns=(
        _SPEC,
        Column("Desired", ".spec.replicas", "integer", "Pods that are wanted."),
        Column("Available", ".status.available", "integer", "Pods that are up and ready."),
        _PHASE,
        AGE,
        _IMAGE,
    ),
    names=_LABEL,
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
)

GPU_UNIT = Kind(
    GROUP,
    VERSION,
    "GPUUnit",
    "gpuunits",
    GPUUnit,
    singular="gpuunit",
    short_names=("gu",),
    categories=(CATEGORY,),
    columns=(
        _SPEC,
        _PHASE,
        Column("Access", ".status.accessURL", description="Where users reach it."),
        AGE,
        _IMAGE,
        Column("Node", ".status.nodeName", description="Node that it runs on.", priority=1),
    ),
    names=_SERVICE,
)

GPU_STORAGE = Kind(
    GROUP,
    VERSION,
    "GPUStorage",
    "gpustorages",
    GPUStorage,
    singular="gpustorage",
    short_names=("gs",),
    categories=(CATEGORY,),
    columns=(
        Column("Size", ".spec.size", description="Size that is wanted."),
        Column("Capacity", ".status.capacity", description="Size that it has."),
        _PHASE,
        AGE,
        Column("Class", ".spec.storageClassName", description="StorageClass of the volume.", priority=1),
        Column("Unit", ".status.attachedTo.unit", description="Unit that holds it.", priority=1),
    ),
    names=_LABEL,
)

GPU_FUNCTION = Kind(
    GROUP,
    VERSION,
    "GPUFunction",
    "gpufunctions",
    GPUFunction,
    singular="gpufunction",
    short_names=("gf",),
    categories=(CATEGORY,),
    columns=(
        Column("Spec", ".spec.unit.specName", description="Flavour of the workers."),
        Column("Ready", ".status.readyWorkers", "integer", "Workers that take invocations."),
        Column("Workers", ".status.workers", "integer", "Workers that exist."),
        Column("Max", ".spec.maxWorkers", "integer", "Workers at most."),
        _PHASE,
        AGE,
        Column("Image", ".spec.unit.image", description="Container image of the workers.", priority=1),
    ),
    names=_FUNCTION,
)

OPERATION = Kind(
    GROUP,
    VERSION,
    "Operation",
    "operations",
    Operation,
    singular="operation",
    short_names=("op",),
    categories=(CATEGORY,),
    columns=(
        Column("Type", ".spec.type", description="What it does."),
        Column("Operation-ID", ".spec.operationID", description="The id that the client chose."),
        _PHASE,
        AGE,
        Column("Error", ".status.error.code", description="Why it failed.", priority=1),
    ),
    status_subresource=False,
)

KINDS: tuple[Kind[Any], ...] = (STOCK_POOL, GPU_UNIT, GPU_STORAGE, GPU_FUNCTION, OPERATION)
