"""Drives one GPUUnit toward its spec."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.provenance import source_of
from gpu_runtime.api.v1alpha1.reasons import (
    ACCESS_CONFIG_INVALID,
    SERVERLESS_CONFIG_INVALID,
    STORAGE_MOUNT_INVALID,
    UNIT_DEPLOYMENT_SYNC_FAILED,
    UNIT_NETWORK_POLICY_SYNC_FAILED,
    UNIT_SERVICE_SYNC_FAILED,
)
from gpu_runtime.api.v1alpha1.rules import access_errors, mount_errors, template_errors
from gpu_runtime.api.v1alpha1.stock_batch import ordinal_of, seen_listed
from gpu_runtime.api.v1alpha1.worker_pod import serverless_errors
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES, Service
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS
from gpu_runtime.controllers.gpuunit.admitter import Admitter, Settled
from gpu_runtime.controllers.gpuunit.readiness import Observed, readiness, status
from gpu_runtime.controllers.gpuunit.resources.deployment import deployment, pod_size
from gpu_runtime.controllers.gpuunit.resources.network_policy import network_policy
from gpu_runtime.controllers.gpuunit.resources.service import access_url, service
from gpu_runtime.controllers.gpuunit.role import is_stock
from gpu_runtime.controllers.gpuunit.serverless_status import serving
from gpu_runtime.controllers.gpuunit.stock_gate import StockGate
from gpu_runtime.controllers.gpuunit.storage_gate import StorageGate
from gpu_runtime.controllers.gpuunit.teardown import Teardown
from gpu_runtime.controllers.labels import is_controlled_by
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.readiness import Blocked, in_words, invalid, reported_as
from gpu_runtime.controllers.ready_status import ReadyStatus
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import changes
from gpu_runtime.kube.controller import Result


@dataclass(frozen=True)
class GPUUnitReconciler:
    """Reads caches, and Operations live. Writes only differences."""

    caches: Caches
    children: ChildWriter[GPUUnit]
    status: ReadyStatus[GPUUnit]
    admitter: Admitter
    teardown: Teardown
    gate: StockGate
    storages: StorageGate
    settings: ControllerManagerSettings

    async def reconcile(self, key: Key) -> Result:
        await self.teardown.remove(key)
        unit = self.caches.units.get(key)
        if unit is None or unit.metadata.deletionTimestamp is not None:
            return Result()  # the garbage collector deletes its other children
        seen = self._observed(unit)
        blocked: Blocked | None = None
        try:
            if is_stock(unit, self.settings):
                await self.gate.before(unit)
            elif not self._asks_for_pod(seen):
                await self.admitter.admit(unit)
                await self._end_stock(unit)
                seen = await self._before_mount(seen)
                await self.admitter.release(unit)
            size = self._specification(unit)
            await self._network(unit)
            seen = replace(seen, service=await self._service(unit), access_url=access_url(unit, self.settings))
            seen = replace(seen, workload=await self._workload(seen, size))
            if is_stock(unit, self.settings):
                seen = await self.gate.after(seen)
        except Settled:
            return Result()
        except Blocked as error:
            blocked = error
            seen = replace(seen, blocked=error.outcome)
        outcome = readiness(seen)
        told = serving(unit, outcome)
        new = replace_fields(status(seen, outcome), serverless=told.status)
        delay = await self.status.write(unit, new, outcome, seen.workload, conditions=told.conditions)
        return blocked.result() if blocked is not None and delay is None else Result(delay)

    def _observed(self, unit: GPUUnit) -> Observed:
        """The unit's own children, as the caches show them."""
        key = unit.metadata.key
        made, served = self.caches.deployments.get(key), self.caches.services.get(key)
        ours = made is not None and is_controlled_by(made.metadata, unit.metadata)
        return Observed(
            unit,
            workload=self.caches.workload(unit.metadata, made) if made is not None and ours else None,
            service=served if served is not None and is_controlled_by(served.metadata, unit.metadata) else None,
            access_url=unit.status.accessURL,
            listed=is_stock(unit, self.settings) and ordinal_of(unit.metadata) > 0 and seen_listed(unit),
        )

    async def _end_stock(self, unit: GPUUnit) -> None:
        """Deletes the Deployment of the unit's stock now: the stock's own key may be far back in the queue."""
        source = source_of(unit)
        with reported_as(UNIT_DEPLOYMENT_SYNC_FAILED):
            if source is not None:
                await self.teardown.remove(source.key)

    def _specification(self, unit: GPUUnit) -> PodSize:
        spec = unit.spec
        problems = in_words(template_errors(spec.template))
        try:
            size = pod_size(unit)
        except ValueError as error:
            raise invalid("; ".join([str(error), *problems])) from error
        if problems:
            raise invalid("; ".join(problems))
        if unreachable := in_words(access_errors(spec.access, spec.template)):
            raise invalid("; ".join(unreachable), ACCESS_CONFIG_INVALID)
        if unmountable := in_words(mount_errors(spec.storageMounts)):
            raise invalid("; ".join(unmountable), STORAGE_MOUNT_INVALID)
        if spec.serverless.enabled:
            self._check_worker(unit)
        return size

    def _check_worker(self, unit: GPUUnit) -> None:
        """Blocked when the unit cannot be a serverless worker."""
        spec = unit.spec
        if is_stock(unit, self.settings):
            message = "spec.serverless: a stock unit only reserves resources, it cannot be a worker"
            raise invalid(message, SERVERLESS_CONFIG_INVALID)
        if found := in_words(serverless_errors(spec.serverless, spec.image, spec.template, spec.storageMounts)):
            raise invalid("; ".join(found), SERVERLESS_CONFIG_INVALID)
        if not self.settings.serverless.brokerURL:
            message = "no unit can be a worker here: the controller-manager has no setting serverless.brokerURL"
            raise invalid(message, SERVERLESS_CONFIG_INVALID)

    async def _network(self, unit: GPUUnit) -> None:
        wanted = network_policy(unit, self.settings)
        with reported_as(UNIT_NETWORK_POLICY_SYNC_FAILED):
            if wanted is not None:
                await self.children.ensure(unit, NETWORK_POLICIES, wanted, self.caches.policies)

    async def _service(self, unit: GPUUnit) -> Service | None:
        wanted = service(unit, self.settings)
        with reported_as(UNIT_SERVICE_SYNC_FAILED):
            if wanted is not None:
                return await self.children.ensure(unit, SERVICES, wanted, self.caches.services)
            await self.children.remove(unit, SERVICES, unit.metadata.key, self.caches.services)
            return None

    async def _workload(self, seen: Observed, size: PodSize) -> Workload:
        unit = seen.unit
        live = seen.workload.deployment if seen.workload else None
        wanted = deployment(unit, size, self.settings, live)
        if live is not None and self._mounts(unit) and changes(live, wanted):
            await self.storages.open(unit)
        with reported_as(UNIT_DEPLOYMENT_SYNC_FAILED):
            made = await self.children.ensure(unit, DEPLOYMENTS, wanted, self.caches.deployments, live)
        return self.caches.workload(unit.metadata, made)

    async def _before_mount(self, seen: Observed) -> Observed:
        """Makes the Deployment of a unit with mounts, without replicas.

        The creation of a Deployment that mounts could come late, when the storages belong to another unit, and nothing
        could prevent it. A change can be prevented, by its version. It is made while the pod of the stock still ends.
        """
        unit = seen.unit
        if seen.workload is not None or not self._mounts(unit):
            return seen
        wanted = deployment(unit, self._specification(unit), self.settings, None)
        without_pod = replace_fields(wanted, spec=replace_fields(wanted.spec, replicas=0))
        with reported_as(UNIT_DEPLOYMENT_SYNC_FAILED):
            made = await self.children.ensure(unit, DEPLOYMENTS, without_pod, self.caches.deployments)
        return replace(seen, workload=self.caches.workload(unit.metadata, made))

    def _asks_for_pod(self, seen: Observed) -> bool:
        """Whether the Deployment exists, and not only to be given its mounts and its pod later."""
        workload = seen.workload
        return workload is not None and not (self._mounts(seen.unit) and workload.deployment.spec.replicas == 0)

    def _mounts(self, unit: GPUUnit) -> bool:
        return bool(unit.spec.storageMounts) and not is_stock(unit, self.settings)
