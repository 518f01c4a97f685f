"""StockPool: a pool of identical runtime pods."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.immutability import immutable
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.fields import (
    Conditions,
    Count,
    GpuCount,
    ImageReference,
    LastSyncTime,
    ObservedGeneration,
    QuantityText,
    Replicas,
    Reported,
    SpecName,
)
from gpu_runtime.api.v1alpha1.group import API_VERSION
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate

StockPoolPhase = Literal["Empty", "Progressing", "Ready", "Failed"]


class StockPoolSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How many pods of which flavour the pool keeps running, and what runs in them."""

    specName: Annotated[SpecName, Meta(description="Flavour of the pool's runtimes, such as g1.1. Cannot be changed.")]
    image: Annotated[
        ImageReference | None,
        Meta(description="Container image. Default: a small placeholder that only holds the resources."),
    ] = None
    memory: Annotated[
        QuantityText | None,
        Meta(description="Memory of each pod, such as 16Gi: request and limit. Default: none is reserved."),
    ] = None
    gpu: Annotated[GpuCount, Meta(description="GPUs of each pod: request and limit of nvidia.com/gpu.")] = 0
    replicas: Annotated[Replicas, Meta(description="Pods to keep running. `kubectl scale stockpool` sets it.")]
    template: Annotated[
        RuntimeTemplate,
        Meta(description="What runs inside each pod. With ports in it, the pool gets a Service named pool-<name>."),
    ] = EMPTY_TEMPLATE


class StockPoolStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the controller last saw of the pool."""

    phase: Annotated[
        StockPoolPhase | None,
        Meta(description="Empty (no replicas wanted), Progressing, Ready or Failed. The Ready condition says why."),
    ] = None
    available: Annotated[Count, Meta(description="Pods that are up and ready.")] = 0
    allocated: Annotated[Count, Meta(description="Wanted pods that are not available: replicas less available.")] = 0
    replicas: Annotated[
        Count, Meta(description="Pods that exist, ready or not; read by `kubectl scale` and autoscalers.")
    ] = 0
    selector: Annotated[
        Reported, Meta(description="Label selector of the pool's pods, as text; read by autoscalers.")
    ] = ""
    serviceName: Annotated[
        Reported, Meta(description="Service that reaches the pods; absent while the template has no ports.")
    ] = ""
    observedGeneration: ObservedGeneration = 0
    lastSyncTime: LastSyncTime = None
    conditions: Conditions = []


class StockPool(Struct, frozen=True, kw_only=True):
    """A pool of identical runtime pods, kept at the wanted number."""

    apiVersion: str = API_VERSION
    kind: str = "StockPool"
    metadata: ObjectMeta
    spec: Annotated[
        StockPoolSpec,
        Meta(
            description="What the pool should be.",
            extra_json_schema=immutable("specName", because="a pool of another flavour is another pool"),
        ),
    ]
    status: Annotated[StockPoolStatus, Meta(description="What the pool is; written by the controller.")] = (
        StockPoolStatus()
    )
