"""Adds the reconcilers to a manager, with their caches and the changes that trigger them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.reasons import SERVERLESS_READY
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import BY_OPERATION, BY_SOURCE_STOCK, BY_STORAGE, BY_UID, Caches
from gpu_runtime.controllers.child_kinds.workloads import Deployment, PodView, ReplicaSetView
from gpu_runtime.controllers.gpustorage.registration import add_gpu_storages
from gpu_runtime.controllers.gpuunit import readiness as gpuunit
from gpu_runtime.controllers.gpuunit.admitter import Admitter
from gpu_runtime.controllers.gpuunit.reconcile import GPUUnitReconciler
from gpu_runtime.controllers.gpuunit.role import is_stock
from gpu_runtime.controllers.gpuunit.stock_gate import StockGate, is_gated
from gpu_runtime.controllers.gpuunit.storage_gate import StorageGate
from gpu_runtime.controllers.gpuunit.teardown import Teardown
from gpu_runtime.controllers.labels import controlled_by
from gpu_runtime.controllers.operation_records import OperationRecords
from gpu_runtime.controllers.product_kinds import GPU_UNITS, STOCK_POOLS
from gpu_runtime.controllers.ready_status import ReadyStatus, complete_when
from gpu_runtime.controllers.stockpool import readiness as stockpool
from gpu_runtime.controllers.stockpool.reconcile import StockPoolReconciler
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import Children
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Controller, Source, mapped, owned, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.queue import FIRST


def add_controllers(
    manager: Manager,
    settings: ControllerManagerSettings,
    *,
    recorder: Recorder | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[str, Controller]:
    """Adds all controllers of the process and returns them by name."""
    caches = Caches.of(manager)
    records = OperationRecords(manager.client, caches.unfinished)
    return {
        "stockpool": _stock_pools(manager, caches, records, settings, recorder, clock),
        "gpuunit": _gpu_units(manager, caches, records, settings, recorder, clock),
        "gpustorage": add_gpu_storages(manager, caches, settings, recorder, clock),
    }


def urgency(workload: Deployment) -> int:
    """FIRST for a Deployment that runs: only its owner's status is left to write, and a user waits for it.

    In a burst, it would otherwise wait behind hundreds of objects that each take several requests to build.
    """
    return FIRST if workload.status.availableReplicas else 1


def _stock_pools(
    manager: Manager,
    caches: Caches,
    records: OperationRecords,
    settings: ControllerManagerSettings,
    recorder: Recorder | None,
    clock: Clock,
) -> Controller:
    def runs_for(child: PodView | ReplicaSetView) -> Iterable[Key]:
        uids = controlled_by(child.metadata.labels)
        return [pool.metadata.key for uid in uids for pool in caches.pools.find(BY_UID, uid)]

    reconciler = StockPoolReconciler(
        caches=caches,
        children=ChildWriter(STOCK_POOLS, Children(manager.client), recorder, complete_when(stockpool.COMPLETE)),
        status=ReadyStatus.of(STOCK_POOLS, caches.pools, manager.client, clock, recorder),
        records=records,
        client=manager.client,
        settings=settings,
    )
    sources: list[Source[Any]] = [
        primary(caches.pools.store),
        owned(caches.deployments.store, STOCK_POOLS, urgent=urgency),
        owned(caches.services.store, STOCK_POOLS),
        mapped(caches.replica_sets, runs_for),
        mapped(caches.pods, runs_for),
    ]
    return manager.controller("stockpool", reconciler.reconcile, sources, workers=settings.workers)


def _gpu_units(
    manager: Manager,
    caches: Caches,
    records: OperationRecords,
    settings: ControllerManagerSettings,
    recorder: Recorder | None,
    clock: Clock,
) -> Controller:
    def runs_for(child: PodView | ReplicaSetView) -> Iterable[Key]:
        uids = controlled_by(child.metadata.labels)
        return [unit.metadata.key for uid in uids for unit in caches.units.find(BY_UID, uid)]

    def waits_for_stock(stock: GPUUnit) -> Iterable[Key]:
        return [unit.metadata.key for unit in caches.units.find(BY_SOURCE_STOCK, stock.metadata.uid)]

    def waits_for_pod(pod: PodView) -> Iterable[Key]:
        uids = controlled_by(pod.metadata.labels)
        return [unit.metadata.key for uid in uids for unit in caches.units.find(BY_SOURCE_STOCK, uid)]

    def mounted_by(storage: GPUStorage) -> Iterable[Key]:
        return [unit.metadata.key for unit in caches.units.find(BY_STORAGE, str(storage.metadata.key))]

    def lists(record: Operation) -> Iterable[Key]:
        units = caches.units.find(BY_OPERATION, record.metadata.name)
        return [unit.metadata.key for unit in units if is_stock(unit, settings) and is_gated(unit)]

    reconciler = GPUUnitReconciler(
        caches=caches,
        children=ChildWriter(GPU_UNITS, Children(manager.client), recorder, complete_when(gpuunit.COMPLETE)),
        status=ReadyStatus.of(GPU_UNITS, caches.units, manager.client, clock, recorder, further=(SERVERLESS_READY,)),
        admitter=Admitter(manager.client, caches, clock),
        teardown=Teardown(manager.client, caches),
        gate=StockGate(manager.client, records, clock),
        storages=StorageGate(manager.client, clock),
        settings=settings,
    )
    sources: list[Source[Any]] = [
        primary(caches.units.store, urgent=lambda unit: not is_stock(unit, settings)),
        # Primary, so that a start also reconciles every Deployment: its unit may have been deleted while no process
        # led. A unit and its Deployment have the same name, so the key fits both.
        replace(owned(caches.deployments.store, GPU_UNITS, urgent=urgency), is_primary=True),
        owned(caches.services.store, GPU_UNITS),
        owned(caches.policies.store, GPU_UNITS),
        mapped(caches.replica_sets, runs_for),
        mapped(caches.pods, runs_for),
        mapped(caches.units.store, waits_for_stock),
        mapped(caches.pods, waits_for_pod),
        mapped(caches.unfinished, lists),
        mapped(caches.storages.store, mounted_by),
    ]
    return manager.controller("gpuunit", reconciler.reconcile, sources, workers=settings.workers)
