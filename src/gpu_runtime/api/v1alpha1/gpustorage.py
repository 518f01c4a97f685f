"""GPUStorage: data that outlives the units that mount it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpu_runtime.api.immutability import immutable
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.api.v1alpha1.fields import (
    Conditions,
    Count,
    ImageReference,
    LastSyncTime,
    ObjectName,
    ObservedGeneration,
    QuantityText,
    Reported,
    SubdomainName,
    Uid,
    Words,
)
from gpu_runtime.api.v1alpha1.group import API_VERSION

DEFAULT_STORAGE_CLASS = "rook-ceph-block"

GPUStoragePhase = Literal["Pending", "Ready", "Failed"]
PreparePhase = Literal["NotRequested", "Pending", "Running", "Succeeded", "Failed"]
RecoveryPhase = Literal["None", "Required", "Running", "Succeeded"]
AccessorPhase = Literal["Disabled", "Pending", "Ready", "Failed"]


class Prepare(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the volume is filled before its first use: from an image that runs once, or from another storage."""

    fromImage: Annotated[
        ImageReference | None,
        Meta(description="Image that runs once to fill the volume, mounted at /workspace. Needs command or args."),
    ] = None
    fromStorageName: Annotated[
        ObjectName | None,
        Meta(description="GPUStorage in the same namespace whose content is copied, instead of fromImage."),
    ] = None
    command: Annotated[Words, Meta(description="Command to run in fromImage, instead of its entrypoint.")] = []
    args: Annotated[Words, Meta(description="Arguments of that command, or of the image's entrypoint.")] = []


class Accessor(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Read access to the files of the storage over HTTP."""

    enabled: Annotated[bool, Meta(description="Whether the files can be browsed and downloaded.")] = False


NO_ACCESSOR = Accessor()


class GPUStorageSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How much storage, of which class, and what is in it at first."""

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


class PrepareStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far filling the volume is."""

    phase: Annotated[PreparePhase, Meta(description="NotRequested, Pending, Running, Succeeded or Failed.")]
    jobName: Annotated[Reported, Meta(description="Job that fills the volume; its pod's log tells more.")] = ""
    jobUID: Annotated[
        Uid, Meta(description="UID of that Job. One of the same name that was made later is another one.")
    ] = ""
    observedDigest: Annotated[Reported, Meta(description="Digest of the request that the phase is about.")] = ""
    recoveryPhase: Annotated[
        RecoveryPhase,
        Meta(description="None; Required after a failure, until recovery is asked for; Running; or Succeeded."),
    ] = "None"
    message: Annotated[
        Reported, Meta(description="What it does or why it failed: exit code and last line of its output.")
    ] = ""
    filesCopied: Annotated[Count, Meta(description="Files copied so far; only for a copy of another storage.")] = 0
    filesTotal: Annotated[Count, Meta(description="Files to copy.")] = 0
    bytesCopied: Annotated[int, Meta(ge=0, description="Bytes copied so far.")] = 0
    bytesTotal: Annotated[int, Meta(ge=0, description="Bytes to copy.")] = 0
    startTime: Annotated[datetime | None, Meta(description="When filling began.")] = None
    completionTime: Annotated[datetime | None, Meta(description="When it succeeded or failed.")] = None


class AccessorStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whether and where the files can be read."""

    phase: Annotated[AccessorPhase, Meta(description="Disabled, Pending, Ready or Failed.")]
    serviceName: Annotated[Reported, Meta(description="Service that serves the files.")] = ""
    accessURL: Annotated[Reported, Meta(description="Where the files can be read.")] = ""


class GPUStorageStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the controller last saw of the storage."""

    phase: Annotated[
        GPUStoragePhase | None, Meta(description="Pending, Ready or Failed. The Ready condition says why.")
    ] = None
    claimName: Annotated[Reported, Meta(description="PersistentVolumeClaim that holds the data.")] = ""
    capacity: Annotated[
        Reported, Meta(description="Size that the volume has now; follows spec.size when it grows.")
    ] = ""
    mountable: Annotated[
        bool,
        Meta(description="Whether a unit that mounts the storage may start: its claim can be used, and it is filled."),
    ] = False
    prepare: Annotated[PrepareStatus | None, Meta(description="How far filling the volume is.")] = None
    accessor: Annotated[AccessorStatus | None, Meta(description="Whether and where the files can be read.")] = None
    attachedTo: Annotated[
        Attachment | None,
        Meta(description="Who holds the storage: one active unit, or a storage that copies from it. Absent if free."),
    ] = None
    observedGeneration: ObservedGeneration = 0
    lastSyncTime: LastSyncTime = None
    conditions: Conditions = []


class GPUStorage(Struct, frozen=True, kw_only=True):
    """Persistent data for GPU units. Deleting a unit never deletes it."""

    apiVersion: str = API_VERSION
    kind: str = "GPUStorage"
    metadata: ObjectMeta
    spec: Annotated[
        GPUStorageSpec,
        Meta(
            description="What the storage should be.",
            extra_json_schema=immutable("storageClassName", "prepare", because="it is decided when the volume is made"),
        ),
    ]
    status: Annotated[GPUStorageStatus, Meta(description="What the storage is; written by the controller.")] = (
        GPUStorageStatus()
    )
