"""Claims, volumes and storage classes, and the ConfigMaps and Secrets that pods read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.container import Resources
from gpu_runtime.local.kinds.pods import NodeSelector
from gpu_runtime.local.kinds.volume import HostPath
from gpu_runtime.local.kinds.wire import Condition, LabelSelector

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


class ClaimSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    accessModes: list[str] = []
    resources: Resources = Resources()
    storageClassName: str | None = None
    volumeName: str = ""
    volumeMode: str = "Filesystem"
    selector: LabelSelector | None = None


class ClaimStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    accessModes: list[str] = []
    capacity: dict[str, str] = {}
    conditions: list[Condition] = []


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def class_name(self) -> str:
        return self.spec.storageClassName or ""

    @property
    def requested(self) -> str:
        return self.spec.resources.requests.get("storage", "0")

    def wants_more(self, capacity: Mapping[str, str]) -> bool:
        return Quantity.parse(self.requested) > Quantity.parse(capacity.get("storage", "0"))


class ClaimRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    apiVersion: str = ""
    resourceVersion: str = ""


class VolumeAffinity(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    required: NodeSelector | None = None


class VolumeSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    capacity: dict[str, str] = {}
    accessModes: list[str] = []
    storageClassName: str = ""
    persistentVolumeReclaimPolicy: str = "Retain"
    volumeMode: str = "Filesystem"
    claimRef: ClaimRef | None = None
    hostPath: HostPath | None = None
    local: HostPath | None = None
    nodeAffinity: VolumeAffinity | None = None


class VolumeStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    message: str = ""


class PersistentVolume(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class StorageClass(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    provisioner: str = ""
    reclaimPolicy: str = "Delete"
    volumeBindingMode: str = "Immediate"
    allowVolumeExpansion: bool = False
    parameters: dict[str, str] = {}


class ConfigMap(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    binaryData: dict[str, bytes] = {}


class Secret(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, bytes] = {}


CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Claim)
VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
