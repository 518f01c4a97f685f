"""The request types. Field names are the public contract; limits come from the kinds that the requests create."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from gpu_runtime.api.meta.names import DNS1035_LABEL, DNS1035_LABEL_HINT, LABEL_LENGTH
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS, Access
from gpu_runtime.api.v1alpha1.fields import (
    GpuCount,
    ImageReference,
    ObjectName,
    QuantityText,
    Replicas,
    SpecName,
    SubdomainName,
)
from gpu_runtime.api.v1alpha1.gpustorage import DEFAULT_STORAGE_CLASS, NO_ACCESSOR, Accessor, Prepare
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.operation import OperationID
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS, Serverless
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate

ServiceName = Annotated[
    str, Meta(min_length=1, max_length=LABEL_LENGTH, pattern=DNS1035_LABEL, extra={"hint": DNS1035_LABEL_HINT})
]

Operation_ID = Annotated[
    OperationID,
    Meta(description="Chosen by the client, one for each operation. A retry sends the same id and the same payload."),
]


Mounts = Annotated[list[StorageMount], Meta(max_length=16)]


class CreateStockPool(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pool of identical runtime pods."""

    operationID: Operation_ID
    name: Annotated[ObjectName | None, Meta(description="Name of the pool. Default: derived from the operationID.")] = (
        None
    )
    namespace: Annotated[ObjectName | None, Meta(description="Namespace of the pool. Default: default.")] = None
    specName: Annotated[SpecName, Meta(description="Flavour of the pool's runtimes, such as g1.1.")]
    image: Annotated[ImageReference | None, Meta(description="Container image. Default: a small placeholder.")] = None
    memory: Annotated[QuantityText | None, Meta(description="Memory of each pod, such as 16Gi.")] = None
    gpu: Annotated[GpuCount, Meta(description="GPUs of each pod.")] = 0
    replicas: Annotated[Replicas, Meta(description="Pods to keep running.")]
    template: Annotated[RuntimeTemplate, Meta(description="What runs inside each pod.")] = EMPTY_TEMPLATE


class CreateStockUnits(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Warm stock units of one flavour. Each is handed over to one user."""

    operationID: Operation_ID
    specName: Annotated[SpecName, Meta(description="Flavour of the stock, such as g1.1. One flavour has one size.")]
    cpu: Annotated[QuantityText | None, Meta(description="CPU that each unit holds, such as 4 or 500m.")] = None
    memory: Annotated[QuantityText | None, Meta(description="Memory that each unit holds, such as 16Gi.")] = None
    gpu: Annotated[GpuCount, Meta(description="GPUs that each unit holds.")] = 0
    replicas: Annotated[
        int, Meta(ge=1, le=1000, description="Stock units to create; the installation may allow fewer per request.")
    ]


class CreateGPUUnit(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A running GPU instance, made from one warm stock unit of the flavour."""

    operationID: Operation_ID
    name: Annotated[ServiceName, Meta(description="Name of the unit, and of its Service.")]
    namespace: Annotated[ObjectName | None, Meta(description="Namespace of the unit. Default: runtime-instance.")] = (
        None
    )
    specName: Annotated[SpecName, Meta(description="Flavour of the stock to consume; it sets cpu, memory and gpu.")]
    stockNamespace: Annotated[
        ObjectName | None, Meta(description="Namespace of the stock; only a stock namespace is accepted.")
    ] = None
    image: Annotated[
        ImageReference | None,
        Meta(description="Container image of the user. Required, unless serverless.handler says what runs."),
    ] = None
    template: Annotated[RuntimeTemplate, Meta(description="What runs inside the container.")] = EMPTY_TEMPLATE
    access: Annotated[Access, Meta(description="How users reach the unit.")] = DEFAULT_ACCESS
    storageMounts: Annotated[
        Mounts, Meta(description="Storages of the unit's namespace that appear inside the container.")
    ] = []
    serverless: Annotated[
        Serverless, Meta(description="Makes the unit a static worker of the function that requestID names.")
    ] = NOT_SERVERLESS


class UpdateGPUUnit(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Fields to change. An absent field is kept, null clears it. The reserved resources cannot change."""

    image: Annotated[
        ImageReference | UnsetType | None,
        Meta(description="Container image of the user; null restores the placeholder."),
    ] = UNSET
    template: Annotated[
        RuntimeTemplate | UnsetType | None, Meta(description="What runs inside the container; replaced as a whole.")
    ] = UNSET
    access: Annotated[Access | UnsetType | None, Meta(description="How users reach the unit; replaced as a whole.")] = (
        UNSET
    )
    storageMounts: Annotated[
        Mounts | UnsetType | None,
        Meta(description="Storages inside the container; replaced as a whole. The unit's pod starts again."),
    ] = UNSET
    serverless: Annotated[
        Serverless | UnsetType | None,
        Meta(description="The unit's part in a serverless function; replaced as a whole. null ends it."),
    ] = UNSET


class CreateGPUStorage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Persistent data for units. It stays when the units that mount it are deleted."""

    operationID: Annotated[
        Operation_ID | None,
        Meta(
            description="Chosen by the client, one for each operation. Without one, the name identifies the storage: "
            "the same request again is answered with the storage that exists."
        ),
    ] = None
    name: Annotated[ObjectName, Meta(description="Name of the storage, and of its PersistentVolumeClaim.")]
    namespace: Annotated[
        ObjectName | None, Meta(description="Namespace of the storage. Default: runtime-instance.")
    ] = None
    size: Annotated[
        QuantityText, Meta(description="Size of the volume, such as 20Gi. It can grow later, never shrink.")
    ]
    storageClassName: Annotated[
        SubdomainName, Meta(description="StorageClass that provides the volume. Cannot be changed.")
    ] = DEFAULT_STORAGE_CLASS
    prepare: Annotated[
        Prepare | None,
        Meta(description="How the volume is filled before its first use. Default: it stays empty. Cannot be changed."),
    ] = None
    accessor: Annotated[Accessor, Meta(description="Read access to the files over HTTP.")] = NO_ACCESSOR


class UpdateGPUStorage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Fields to change. An absent field is kept."""

    size: Annotated[
        QuantityText | UnsetType, Meta(description="The new size, such as 40Gi: at least as large as the volume is.")
    ] = UNSET
    accessor: Annotated[
        Accessor | UnsetType | None, Meta(description="Read access to the files over HTTP; null turns it off.")
    ] = UNSET
