"""The volumes of a Pod, as far as the node reads them."""

from __future__ import annotations

import msgspec

from gpu_runtime.local.kinds.container import FieldRef, ResourceFieldRef


class KeyToPath(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class EmptyDir(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    medium: str = ""
    sizeLimit: str = ""


class ConfigMapSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    items: list[KeyToPath] = []
    defaultMode: int = 0o644
    optional: bool = False


class SecretSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    secretName: str = ""
    name: str = ""  # in a projected volume
    items: list[KeyToPath] = []
    defaultMode: int = 0o644
    optional: bool = False


class DownwardFile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    path: str
    fieldRef: FieldRef | None = None
    resourceFieldRef: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    items: list[DownwardFile] = []
    defaultMode: int = 0o644


class ProjectedPart(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    configMap: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downwardAPI: DownwardSource | None = None


class ProjectedSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    sources: list[ProjectedPart] = []
    defaultMode: int = 0o644


class ClaimSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    claimName: str
    readOnly: bool = False


class HostPath(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    path: str
    type: str = ""


class Volume(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    emptyDir: EmptyDir | None = None
    configMap: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downwardAPI: DownwardSource | None = None
    projected: ProjectedSource | None = None
    persistentVolumeClaim: ClaimSource | None = None
    hostPath: HostPath | None = None
