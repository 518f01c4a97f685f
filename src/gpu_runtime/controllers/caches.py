"""The caches of the reconcilers: all objects of our own kinds, and the objects of built-in kinds that we made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import SOURCE_STOCK_UID
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.labels import OPERATION, UNFINISHED
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.controllers.child_kinds.jobs import JOBS, Job
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpu_runtime.controllers.child_kinds.volumes import (
    CLAIMS,
    STORAGE_CLASSES,
    PersistentVolumeClaim,
    StorageClassView,
)
from gpu_runtime.controllers.child_kinds.workloads import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Deployment,
    PodView,
    ReplicaSetView,
)
from gpu_runtime.controllers.labels import MANAGED, controlled_by
from gpu_runtime.controllers.product_kinds import GPU_STORAGES, GPU_UNITS, OPERATIONS, STOCK_POOLS
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.manager import Manager
from gpu_runtime.kube.own_writes import OwnWrites
from gpu_runtime.kube.store import Store

BY_UID = "uid"
BY_SOURCE_STOCK = "source stock"
BY_OPERATION = "operation"
BY_CLASS = "storage class"
BY_HOLDER = "holder"
BY_STORAGE = "storage"

BY_COPY_SOURCE = "copy source"


@dataclass(frozen=True)
class Caches:
    """One cache for each kind. Pods and ReplicaSets are indexed by the UID of the pool or unit that they run for."""

    pools: OwnWrites[StockPool]
    units: OwnWrites[GPUUnit]
    storages: OwnWrites[GPUStorage]
    deployments: OwnWrites[Deployment]
    services: OwnWrites[Service]
    policies: OwnWrites[NetworkPolicy]
    claims: OwnWrites[PersistentVolumeClaim]
    jobs: OwnWrites[Job]
    classes: Store[StorageClassView]
    replica_sets: Store[ReplicaSetView]
    pods: Store[PodView]
    unfinished: Store[Operation]

    @classmethod
    def of(cls, manager: Manager) -> Caches:
        caches = cls(
            pools=OwnWrites(manager.cache(Query(STOCK_POOLS))),
            units=OwnWrites(manager.cache(Query(GPU_UNITS))),
            storages=OwnWrites(manager.cache(Query(GPU_STORAGES))),
            deployments=OwnWrites(manager.cache(Query(DEPLOYMENTS, labels=MANAGED))),
            services=OwnWrites(manager.cache(Query(SERVICES, labels=MANAGED))),
            policies=OwnWrites(manager.cache(Query(NETWORK_POLICIES, labels=MANAGED))),
            claims=OwnWrites(manager.cache(Query(CLAIMS, labels=MANAGED))),
            jobs=OwnWrites(manager.cache(Query(JOBS, labels=MANAGED))),
            classes=manager.cache(Query(STORAGE_CLASSES)),
            replica_sets=manager.cache(Query(REPLICA_SETS, labels=MANAGED)),
            pods=manager.cache(Query(PODS, labels=MANAGED)),
            unfinished=manager.cache(Query(OPERATIONS, labels=UNFINISHED)),
        )
        caches.pools.store.index(BY_UID, lambda pool: (pool.metadata.uid,))
        caches.units.store.index(BY_UID, lambda unit: (unit.metadata.uid,))
        caches.units.store.index(BY_SOURCE_STOCK, _source_stock)
        caches.units.store.index(BY_OPERATION, _operation)
        caches.units.store.index(BY_STORAGE, _mounted)
        caches.storages.store.index(BY_HOLDER, _holder)
        caches.storages.store.index(BY_CLASS, lambda storage: (storage.spec.storageClassName,))
        caches.storages.store.index(BY_UID, lambda storage: (storage.metadata.uid,))
        caches.storages.store.index(BY_COPY_SOURCE, _copy_source)
        caches.jobs.store.index(BY_UID, lambda job: controlled_by(job.metadata.labels))
        caches.replica_sets.index(BY_UID, lambda each: controlled_by(each.metadata.labels))
        caches.pods.index(BY_UID, lambda pod: controlled_by(pod.metadata.labels))
        return caches

    def workload(self, owner: ObjectMeta, deployment: Deployment) -> Workload:
        """The Deployment with its ReplicaSets and pods."""
        return Workload(deployment, self.replica_sets.find(BY_UID, owner.uid), self.pods.find(BY_UID, owner.uid))


def _source_stock(unit: GPUUnit) -> Iterable[str]:
    uid = unit.metadata.annotations.get(SOURCE_STOCK_UID)
    return (uid,) if uid else ()


def _operation(unit: GPUUnit) -> Iterable[str]:
    name = unit.metadata.labels.get(OPERATION)
    return (name,) if name else ()


def _mounted(unit: GPUUnit) -> Iterable[str]:
    return [str(Key(unit.metadata.namespace, mount.name)) for mount in unit.spec.storageMounts]


def _holder(storage: GPUStorage) -> Iterable[str]:
    holder = attachment_of(storage.metadata)
    if holder is None or not holder.unit:
        return ()
    return (str(Key(storage.metadata.namespace, holder.unit)),)


def _copy_source(storage: GPUStorage) -> tuple[str, ...]:
    """Where the storage is to be copied from, as `namespace/name`; nothing once it is filled."""
    prepare, status = storage.spec.prepare, storage.status.prepare
    is_filled = status is not None and status.phase == "Succeeded"
    if prepare is None or prepare.fromStorageName is None or is_filled:
        return ()
    return (str(Key(storage.metadata.namespace, prepare.fromStorageName)),)
