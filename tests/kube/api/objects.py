"""Requests about one kind in one namespace, as plain JSON: the Structs of the kinds would refuse what is to be sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from gpu_runtime.api.kind import Kind
from gpu_runtime.kube.client import Client, Patch
from unit.api.schema_cases import Schema


@dataclass(frozen=True)
class Objects:
    """The objects of a kind in a namespace."""

    client: Client
    kind: Kind[Any]
    namespace: str

    @property
    def path(self) -> str:
        return f"/apis/{self.kind.api_version}/namespaces/{self.namespace}/{self.kind.plural}"

    async def create(self, document: Schema, **parameters: str) -> Schema:
        return await self._send("POST", self.path, document, parameters)

    async def patch(self, name: str, patch: Schema, subresource: str = "", **parameters: str) -> Schema:
        return await self._send("PATCH", f"{self.path}/{name}{subresource}", patch, parameters, Patch.MERGE.value)

    async def _send(
        self, method: str, path: str, body: Schema, parameters: dict[str, str], content_type: str = "application/json"
    ) -> Schema:
        answer = await self.client.request(
            method, path, subject=f"{method} {path}", body=body, parameters=parameters, content_type=content_type
        )
        document: Schema = json.loads(answer)
        return document
