"""Ends a function that is being deleted: first its invocations, then its consumers and workers."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.activator.consumers import Consumers
from gpu_runtime.activator.credentials import Credentials
from gpu_runtime.activator.ending import Ender, Ending
from gpu_runtime.activator.kinds import GPU_UNITS
from gpu_runtime.activator.readiness import Readiness
from gpu_runtime.activator.resources.worker import is_made_for
from gpu_runtime.activator.scaling import Scaling
from gpu_runtime.activator.workers import Workers
from gpu_runtime.api.v1alpha1.annotations import PENDING_INVOCATIONS
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import FUNCTION_DELETING
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.finalizer import Finalizer
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.subjects import Function

CANCEL = "cancel"
AGAIN_SECONDS = 1.0
DELETED = Ending("cancelled", "function_deleted", "its function was deleted, and asked to cancel what was unfinished")


@dataclass(frozen=True)
class Deletion:
    """Does the work of the function's finalizer. It may stop at any step and is repeated until it is done."""

    client: Client
    finalizer: Finalizer[GPUFunction]
    backlog: Backlog
    scaling: Scaling
    workers: Workers
    consumers: Consumers
    credentials: Credentials
    ender: Ender

    async def finish(self, function: GPUFunction) -> tuple[Readiness, float | None]:
        """The state while it lasts, and when to come back. The finalizer is removed when nothing is left."""
        name = Function(*function.metadata.key)
        runs = self.backlog.runs(name)
        if runs and function.metadata.annotations.get(PENDING_INVOCATIONS) == CANCEL:
            await self.ender.end_all(runs, DELETED)
            return _waiting(f"{len(runs)} unfinished invocations are cancelled"), AGAIN_SECONDS
        if runs:
            delay = await self.scaling.scale(function, min_workers=0)
            how = f"to cancel them, set the annotation {PENDING_INVOCATIONS}={CANCEL}"
            return _waiting(f"{len(runs)} invocations are unfinished; {how}"), delay
        if await self.finalizer.finish(function, self._clean):
            return _waiting("nothing is left"), None
        return _waiting("its workers end"), AGAIN_SECONDS

    async def _clean(self, function: GPUFunction) -> bool:
        """Whether nothing is left. Decided by live reads: a cache may not show the last worker yet."""
        name = Function(*function.metadata.key)
        await self.consumers.remove(name)
        left = await self._live_workers(function)
        for unit in left:
            await self.workers.remove(unit)
        self.credentials.forget(name)
        return not left

    async def _live_workers(self, function: GPUFunction) -> list[GPUUnit]:
        listing = await self.client.list(Query(GPU_UNITS, function.metadata.namespace))
        return [unit for unit in listing.items if is_made_for(unit, function.metadata.uid)]


def _waiting(message: str) -> Readiness:
    return Readiness("progressing", FUNCTION_DELETING, message)
