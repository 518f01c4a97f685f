"""Built-in kinds that a controller of any project meets."""

from __future__ import annotations

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta


class ConfigMap(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Namespace, namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
