"""The ConfigMaps with the sources of a function: the current one, and older ones while workers still mount them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.activator.caches import BY_FUNCTION, Caches
from gpu_runtime.activator.kinds import HANDLER_MAP_VIEWS, HANDLER_MAPS
from gpu_runtime.activator.observation import Seen
from gpu_runtime.activator.readiness import Blocked, Readiness
from gpu_runtime.activator.resources import names
from gpu_runtime.activator.resources.handler import handler_map
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.reasons import FUNCTION_CHILD_SYNC_FAILED, NAME_CONFLICT
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests

RETRY_SECONDS = 15.0


@dataclass(frozen=True)
class Handlers:
    client: Client
    caches: Caches

    async def ensure(self, function: GPUFunction) -> None:
        """Creates the ConfigMap of the current source, before a worker mounts it."""
        if function.spec.handler is None:
            return
        key = Key(function.metadata.namespace, names.handler(function))
        found = self.caches.handlers.get(key)
        if found is None:
            try:
                await self.client.create(HANDLER_MAPS, handler_map(function))
            except AlreadyExists:
                pass
            except (Conflict, TooManyRequests):
                raise
            except ApiError as error:
                message = f"ConfigMap {key} cannot be created: {error}"
                raise Blocked(
                    Readiness("failed", FUNCTION_CHILD_SYNC_FAILED, message), seconds=RETRY_SECONDS
                ) from error
            found = self.caches.handlers.wrote(await self.client.get(HANDLER_MAP_VIEWS, key))
        owner = found.metadata.controller
        if owner is None or owner.uid != function.metadata.uid:
            message = f"ConfigMap {key} exists and is not ours; rename or delete it"
            raise Blocked(Readiness("failed", NAME_CONFLICT, message), seconds=RETRY_SECONDS)

    async def remove_old(self, function: GPUFunction, seen: Sequence[Seen]) -> None:
        """Deletes ConfigMaps that are neither current nor mounted by a worker."""
        used = {each.unit.spec.serverless.handler.configMapName for each in seen if each.unit.spec.serverless.handler}
        if function.spec.handler is not None:
            used.add(names.handler(function))
        for found in self.caches.handlers.find(BY_FUNCTION, str(function.metadata.key)):
            owner = found.metadata.controller
            is_ours = owner is not None and owner.uid == function.metadata.uid
            if not is_ours or found.metadata.name in used or found.metadata.deletionTimestamp is not None:
                continue
            try:
                await self.client.delete(HANDLER_MAP_VIEWS, found.metadata.key, uid=found.metadata.uid)
            except (NotFound, Conflict):
                continue
