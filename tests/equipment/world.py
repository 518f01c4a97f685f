"""What tests of the controller runtime work with: ConfigMaps, and a kind of their own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec

from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube import Client, NotFound, Query, Reflector, Resource
from gpu_runtime.kube.builtin import ConfigMap

MakeConfigMap = Callable[..., ConfigMap]
Follow = Callable[..., AbstractAsyncContextManager[Reflector[ConfigMap]]]


class WidgetSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    size: int = 1


class WidgetStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""


class Widget(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


class Definition(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    Definition,
    namespaced=False,
)


class Widgets:
    """A custom kind in a group of its own, with status and scale, that can be installed and removed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.resource = Resource(f"{secrets.token_hex(4)}.test.gpu-runtime.dev", "v1", "Widget", "widgets", Widget)

    async def install(self) -> None:
        """Returns when the server serves the kind."""
        await self._client.create(DEFINITIONS, self._definition())
        await eventually(self._served, what=f"{self.resource.qualified_name} is served")

    async def remove(self) -> None:
        try:
            await self._client.delete(DEFINITIONS, Key("", self.resource.qualified_name))
        except NotFound:
            return

    async def _served(self) -> bool:
        try:
            await self._client.list(Query(self.resource))
        except NotFound:
            return False
        return True

    def _definition(self) -> dict[str, object]:
        number = {"type": "integer", "minimum": 0}
        schema = {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"size": number}},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}, "ready": number}},
            },
        }
        version = {
            "name": self.resource.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"},
            },
        }
        return {
            "metadata": {"name": self.resource.qualified_name},
            "spec": {
                "group": self.resource.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version],
            },
        }
