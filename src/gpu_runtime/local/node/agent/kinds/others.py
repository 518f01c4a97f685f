"""What pods refer to: configuration, storage and Services."""

from __future__ import annotations

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.local.node.agent.kinds.volume import HostPath


class ConfigMap(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    binaryData: dict[str, bytes] = {}


class Secret(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, bytes] = {}


class ClaimSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    volumeName: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class PersistentVolumeSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    hostPath: HostPath | None = None
    local: HostPath | None = None


class PersistentVolume(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class ServicePort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"


class ServiceSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    clusterIP: str = ""
    ports: list[ServicePort] = []
    type: str = "ClusterIP"


class Service(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    ready: bool = True


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    addresses: list[str] = []
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""


class EndpointPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"


class EndpointSlice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    addressType: str = "IPv4"
    endpoints: list[Endpoint] | None = None  # null while there are none
    ports: list[EndpointPort] | None = None
