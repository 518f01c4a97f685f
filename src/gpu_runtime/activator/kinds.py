"""The kinds that the activator reads and writes."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.crds import GPU_FUNCTION, GPU_UNIT
from gpu_runtime.kube.resource import Resource


class HandlerMap(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A ConfigMap with the source of a function."""

    metadata: ObjectMeta
    data: dict[str, str] = {}
    immutable: bool = False


class HandlerMapView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The cached part of it: without the source."""

    metadata: ObjectMeta


class Secret(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Credentials of a function's workers. Never cached."""

    metadata: ObjectMeta
    data: dict[str, str] = {}


class SecretView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A Secret without its content: what the activator reads of one that exists."""

    metadata: ObjectMeta


GPU_FUNCTIONS = Resource.of(GPU_FUNCTION)
GPU_UNITS = Resource.of(GPU_UNIT)
HANDLER_MAPS = Resource("", "v1", "ConfigMap", "configmaps", HandlerMap)
HANDLER_MAP_VIEWS = HANDLER_MAPS.view(HandlerMapView)
SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
SECRET_VIEWS = SECRETS.view(SecretView)
