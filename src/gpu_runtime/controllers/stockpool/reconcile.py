"""Drives one StockPool toward its spec."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import OPERATION_UID
from gpu_runtime.api.v1alpha1.labels import OPERATION
from gpu_runtime.api.v1alpha1.reasons import DEPLOYMENT_SYNC_FAILED, SERVICE_SYNC_FAILED
from gpu_runtime.api.v1alpha1.rules import template_errors
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.network import SERVICES, Service
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.labels import is_controlled_by
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.product_kinds import STOCK_POOLS
from gpu_runtime.controllers.readiness import Blocked, in_words, invalid, reported_as
from gpu_runtime.controllers.ready_status import ReadyStatus
from gpu_runtime.controllers.stockpool.readiness import Observed, readiness, status
from gpu_runtime.controllers.stockpool.resources.deployment import deployment, pod_size
from gpu_runtime.controllers.stockpool.resources.names import child_name
from gpu_runtime.controllers.stockpool.resources.service import service
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.errors import NotFound


@dataclass(frozen=True)
class StockPoolReconciler:
    """Reads caches, and the Operation of a new pool. Writes only differences."""

    caches: Caches
    children: ChildWriter[StockPool]
    status: ReadyStatus[StockPool]
    records: OperationRecords
    client: Client
    settings: ControllerManagerSettings

    async def reconcile(self, key: Key) -> Result:
        pool = self.caches.pools.get(key)
        if pool is None or pool.metadata.deletionTimestamp is not None:
            return Result()  # the garbage collector deletes its children
        seen = self._observed(pool)
        blocked: Blocked | None = None
        try:
            if await self._superseded(pool):
                with suppress(NotFound):
                    await self.client.delete(STOCK_POOLS, key, uid=pool.metadata.uid)
                return Result()
            size = self._specification(pool)
            seen = replace(seen, service=await self._service(seen))
            seen = replace(seen, workload=await self._workload(seen, size))
        except Blocked as error:
            blocked = error
            seen = replace(seen, blocked=error.outcome)
        outcome = readiness(seen)
        delay = await self.status.write(pool, status(seen, outcome), outcome, seen.workload)
        return blocked.result() if blocked is not None and delay is None else Result(delay)

    async def _superseded(self, pool: StockPool) -> bool:
        """Whether the operation lists another pool. Then an executor that was frozen made this one too late.

        Such a pool is deleted before anything is built for it. A pool whose record is gone stays: it may come from a
        backup. A pool that has a status was checked before.
        """
        name, uid = pool.metadata.labels.get(OPERATION), pool.metadata.annotations.get(OPERATION_UID)
        if pool.status.observedGeneration or not name or not uid:
            return False
        record = await self.records.find(name, uid)
        made = record.status.objects[0].uid if record is not None and record.status.objects else ""
        return made not in ("", pool.metadata.uid)

    def _observed(self, pool: StockPool) -> Observed:
        """The pool's own children, as the caches show them."""
        key = Key(pool.metadata.namespace, child_name(pool))
        made, served = self.caches.deployments.get(key), self.caches.services.get(key)
        return Observed(
            pool,
            workload=self.caches.workload(pool.metadata, made)
            if made is not None and is_controlled_by(made.metadata, pool.metadata)
            else None,
            service=served if served is not None and is_controlled_by(served.metadata, pool.metadata) else None,
        )

    def _specification(self, pool: StockPool) -> PodSize:
        problems = in_words(template_errors(pool.spec.template))
        try:
            size = pod_size(pool)
        except ValueError as error:
            raise invalid("; ".join([str(error), *problems])) from error
        if problems:
            raise invalid("; ".join(problems))
        return size

    async def _service(self, seen: Observed) -> Service | None:
        pool, wanted = seen.pool, service(seen.pool)
        with reported_as(SERVICE_SYNC_FAILED):
            if wanted is not None:
                return await self.children.ensure(pool, SERVICES, wanted, self.caches.services)
            key = Key(pool.metadata.namespace, child_name(pool))
            await self.children.remove(pool, SERVICES, key, self.caches.services)
            return None

    async def _workload(self, seen: Observed, size: PodSize) -> Workload:
        pool = seen.pool
        live = seen.workload.deployment if seen.workload else None
        wanted = deployment(pool, size, self.settings, live)
        with reported_as(DEPLOYMENT_SYNC_FAILED):
            made = await self.children.ensure(pool, DEPLOYMENTS, wanted, self.caches.deployments)
        return self.caches.workload(pool.metadata, made)
