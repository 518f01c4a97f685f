"""GPUUnit: one runtime. It is a reservation in the stock namespace, and a user's instance in any other namespace."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.immutability import immutable
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.fields import (
    Conditions,
    Count,
    GpuCount,
    ImageReference,
    LastSyncTime,
    ObjectName,
    ObservedGeneration,
    QuantityText,
    Reported,
    SpecName,
)
from gpu_runtime.api.v1alpha1.group import API_VERSION
from gpu_runtime.api.v1alpha1.list_map import keyed_by
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS, Serverless, ServerlessStatus
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate

GPUUnitPhase = Literal["Progressing", "Ready", "Failed"]


class StorageMount(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Mounts one GPUStorage into the container."""

    name: Annotated[
        ObjectName, Meta(description="Name of the GPUStorage, in the same namespace. Each may be mounted once.")
    ]
    mountPath: Annotated[
        str,
        Meta(
            max_length=1024,
            pattern=r"^/+[^/:][^:]*$",
            description="Where it appears inside the container: an absolute path. Each may occur once.",
            extra={"hint": "an absolute path other than '/', without ':'"},
        ),
    ]
    readOnly: Annotated[bool, Meta(description="Whether the container may only read it.")] = False


class GPUUnitSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reserved resources of the unit, and what runs on them."""

    specName: Annotated[
        SpecName, Meta(description="Flavour of the unit, such as g1.1: a name for its resources. Cannot be changed.")
    ]
    image: Annotated[
        ImageReference | None,
        Meta(description="Container image. Default, and always in stock: a placeholder that only holds the resources."),
    ] = None
    cpu: Annotated[
        QuantityText | None,
        Meta(description="CPU of the unit, such as 4 or 500m: request and limit. Cannot be changed."),
    ] = None
    memory: Annotated[
        QuantityText | None,
        Meta(description="Memory of the unit, such as 16Gi: request and limit. Cannot be changed."),
    ] = None
    gpu: Annotated[
        GpuCount,
        Meta(description="GPUs of the unit: request and limit of nvidia.com/gpu. Cannot be changed."),
    ] = 0
    template: Annotated[RuntimeTemplate, Meta(description="What runs inside the container.")] = EMPTY_TEMPLATE
    access: Annotated[Access, Meta(description="How users reach the unit; makes status.accessURL.")] = DEFAULT_ACCESS
    storageMounts: Annotated[
        list[StorageMount],
        Meta(
            max_length=16,
            description="Storages that appear inside the container. A storage belongs to one active unit at a time.",
            extra_json_schema=keyed_by("name"),
        ),
    ] = []
    serverless: Annotated[
        Serverless,
        Meta(
            description="Makes the unit a worker of a serverless function. For workers that scale, use a GPUFunction."
        ),
    ] = NOT_SERVERLESS


class GPUUnitStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the controller last saw of the unit."""

    phase: Annotated[
        GPUUnitPhase | None,
        Meta(description="Progressing, Ready or Failed. The Ready condition says why."),
    ] = None
    readyReplicas: Annotated[Count, Meta(description="1 while the unit's pod is available, else 0.")] = 0
    serviceName: Annotated[
        Reported, Meta(description="Service that reaches the unit; absent for stock and without ports.")
    ] = ""
    accessURL: Annotated[
        Reported, Meta(description="Where users reach the unit; absent for stock and without ports.")
    ] = ""
    nodeName: Annotated[Reported, Meta(description="Node that the unit's pod runs on.")] = ""
    listed: Annotated[
        bool,
        Meta(
            description="Of seeded stock: whether the controller saw its UID in the list of the Operation that made it."
        ),
    ] = False
    serverless: Annotated[
        ServerlessStatus | None, Meta(description="State of the unit as a serverless worker; absent when it is none.")
    ] = None
    observedGeneration: ObservedGeneration = 0
    lastSyncTime: LastSyncTime = None
    conditions: Conditions = []


class GPUUnit(Struct, frozen=True, kw_only=True):
    """One GPU runtime: a warm reservation in the stock namespace, a user's running instance in any other."""

    apiVersion: str = API_VERSION
    kind: str = "GPUUnit"
    metadata: ObjectMeta
    spec: Annotated[
        GPUUnitSpec,
        Meta(
            description="What the unit should be.",
            extra_json_schema=immutable(
                "specName",
                "cpu",
                "memory",
                "gpu",
                because="it is part of what the unit reserved; create another unit instead",
            ),
        ),
    ]
    status: Annotated[GPUUnitStatus, Meta(description="What the unit is; written by the controller.")] = GPUUnitStatus()
