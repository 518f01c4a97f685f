"""Adds the reconciler of storages to a manager, with its phases and the changes that trigger it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import STORAGE_FINALIZER
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import ACCESSOR_READY, PREPARED
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import BY_CLASS, BY_COPY_SOURCE, BY_HOLDER, BY_UID, Caches
from gpu_runtime.controllers.child_kinds.volumes import StorageClassView
from gpu_runtime.controllers.child_kinds.workloads import PodView, ReplicaSetView
from gpu_runtime.controllers.gpustorage.accessor import StorageAccessor
from gpu_runtime.controllers.gpustorage.claim import ClaimKeeper
from gpu_runtime.controllers.gpustorage.copy_progress import CopyProgress
from gpu_runtime.controllers.gpustorage.copy_source import CopySource
from gpu_runtime.controllers.gpustorage.deletion import Deletion
from gpu_runtime.controllers.gpustorage.judge import Judge
from gpu_runtime.controllers.gpustorage.orphans import OrphanedClaims
from gpu_runtime.controllers.gpustorage.prepare import StoragePrepare
from gpu_runtime.controllers.gpustorage.provisioning import ProvisioningEvents
from gpu_runtime.controllers.gpustorage.reconcile import GPUStorageReconciler
from gpu_runtime.controllers.gpustorage.resize import Resize
from gpu_runtime.controllers.gpustorage.resources.claim import OWNER
from gpu_runtime.controllers.labels import controlled_by
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.ready_status import ReadyStatus
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.children import Children
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.controller import Controller, Source, mapped, owned, owned_by_annotation, primary
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.finalizer import Finalizer
from gpu_runtime.kube.manager import Manager


def add_gpu_storages(
    manager: Manager, caches: Caches, settings: ControllerManagerSettings, recorder: Recorder | None, clock: Clock
) -> Controller:
    reconciler = _reconciler(manager.client, caches, settings, recorder, clock)
    return manager.controller("gpustorage", reconciler.reconcile, _sources(caches), workers=settings.workers)


def _reconciler(
    client: Client, caches: Caches, settings: ControllerManagerSettings, recorder: Recorder | None, clock: Clock
) -> GPUStorageReconciler:
    by_annotation = Children(client, OWNER)  # the claim; all other children have an owner reference
    finalizer = Finalizer(STORAGE_FINALIZER, GPU_STORAGES, caches.storages, client)
    status = ReadyStatus.of(GPU_STORAGES, caches.storages, client, clock, recorder, further=(PREPARED, ACCESSOR_READY))
    by_reference = ChildWriter(GPU_STORAGES, Children(client), recorder)
    prepare = StoragePrepare(
        client=client,
        caches=caches,
        children=by_reference,
        source=CopySource(client, caches, clock),
        progress=CopyProgress(client, clock),
        settings=settings,
    )
    accessor = StorageAccessor(client, caches, by_reference, settings)
    return GPUStorageReconciler(
        caches=caches,
        finalizer=finalizer,
        claim=ClaimKeeper(client, caches, ChildWriter(GPU_STORAGES, by_annotation, recorder), settings),
        events=ProvisioningEvents(client, clock),
        resize=Resize(client, caches, clock),
        prepare=prepare,
        accessor=accessor,
        judge=Judge(client, caches, clock),
        orphans=OrphanedClaims(client, caches),
        deletion=Deletion(client, by_annotation, finalizer, status, prepare, accessor, clock),
        status=status,
    )


def _sources(caches: Caches) -> list[Source[Any]]:
    """The caches whose changes trigger a reconcile, and which storages each change triggers."""

    def of_class(changed: StorageClassView) -> Iterable[Key]:
        return [storage.metadata.key for storage in caches.storages.find(BY_CLASS, changed.metadata.name)]

    def held_by_unit(unit: GPUUnit) -> Iterable[Key]:
        return [each.metadata.key for each in caches.storages.find(BY_HOLDER, str(unit.metadata.key))]

    def runs_for(child: PodView | ReplicaSetView) -> Iterable[Key]:
        uids = controlled_by(child.metadata.labels)
        return [storage.metadata.key for uid in uids for storage in caches.storages.find(BY_UID, uid)]

    def copies(storage: GPUStorage) -> Iterable[Key]:
        """The storages that copy from this one, and the source of this one, which may be free now."""
        key, prepare = storage.metadata.key, storage.spec.prepare
        targets = [target.metadata.key for target in caches.storages.find(BY_COPY_SOURCE, str(key))]
        source = prepare.fromStorageName if prepare is not None else None
        return [*targets, Key(key.namespace, source)] if source is not None else targets

    return [
        primary(caches.storages.store),
        mapped(caches.units.store, held_by_unit),
        # Primary, so that a start also reconciles claims whose storage is gone. A claim has the key of its storage.
        replace(owned_by_annotation(caches.claims.store, GPU_STORAGES, OWNER), is_primary=True),
        mapped(caches.classes, of_class),
        owned(caches.deployments.store, GPU_STORAGES),
        owned(caches.services.store, GPU_STORAGES),
        owned(caches.policies.store, GPU_STORAGES),
        mapped(caches.replica_sets, runs_for),
        mapped(caches.storages.store, copies),
        owned(caches.jobs.store, GPU_STORAGES),
        mapped(caches.pods, runs_for),
    ]
