"""Serves the files of a storage while nobody holds it, and yields the volume as soon as somebody does."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gpu_runtime.api.meta.condition import Condition, find_condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.attachment import Attachment, attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import AccessorPhase, AccessorStatus, GPUStorage
from gpu_runtime.api.v1alpha1.reasons import (
    ACCESSOR_READY,
    STORAGE_ACCESSOR_DISABLED,
    STORAGE_ACCESSOR_FAILED,
    STORAGE_ACCESSOR_PENDING,
    STORAGE_ACCESSOR_READY,
    STORAGE_ACCESSOR_YIELDED,
)
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.caches import Caches
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES
from gpu_runtime.controllers.child_kinds.volumes import PersistentVolumeClaim
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS, PODS, REPLICA_SETS, Deployment
from gpu_runtime.controllers.gpustorage.phases import Accessible
from gpu_runtime.controllers.gpustorage.resources import accessor as resources
from gpu_runtime.controllers.labels import is_controlled_by
from gpu_runtime.controllers.readiness import Blocked, reported_as
from gpu_runtime.controllers.workload import Workload
from gpu_runtime.kube.child_writer import ChildWriter
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.errors import NotFound

RETRY_SECONDS = 15.0


@dataclass(frozen=True)
class StorageAccessor:
    """Runs the pod that serves the files.

    The pod only reads, so data is safe while it ends. But until it is gone, no other node can mount the volume.
    """

    client: Client
    caches: Caches
    children: ChildWriter[GPUStorage]
    settings: ControllerManagerSettings

    async def run(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Accessible:
        """Starts or ends the pod. `claim` is the claim if it can be mounted and is filled; otherwise None."""
        try:
            with reported_as(STORAGE_ACCESSOR_FAILED):
                return await self._serve(storage, claim)
        except Blocked as blocked:
            reason, message = blocked.outcome.reason, blocked.outcome.message
            return self._accessible(storage, "Failed", reason, message, blocked.seconds or RETRY_SECONDS)

    async def _serve(self, storage: GPUStorage, claim: PersistentVolumeClaim | None) -> Accessible:
        if not storage.spec.accessor.enabled:
            await self._end_pod(storage)
            key = resources.accessor_key(storage)
            await self.children.remove(storage, SERVICES, key, self.caches.services)
            await self.children.remove(storage, NETWORK_POLICIES, key, self.caches.policies)
            return self._accessible(storage, "Disabled", STORAGE_ACCESSOR_DISABLED, "not asked for")
        if (holder := attachment_of(storage.metadata)) is not None:
            return await self._yield_to(storage, holder)
        # A volume that waits for its first consumer has no files, and is made on the node of that consumer. A unit must
        # be the first consumer: otherwise the volume may end up on a node without GPUs.
        if claim is None or not claim.is_bound:
            await self._end_pod(storage)
            return self._accessible(storage, "Pending", STORAGE_ACCESSOR_PENDING, "its volume has no files yet")
        return self._reported(storage, await self._ensure(storage, claim))

    async def _yield_to(self, storage: GPUStorage, holder: Attachment) -> Accessible:
        """Reports Yielded only after the pod is gone: the holder's pod waits for that before it starts."""
        if _has_yielded(storage):
            await self._end_pod(storage)  # a late create request may have made the Deployment again
        elif not await self.end(storage):
            message = f"its pod is ending, because {holder} gets the volume"
            return self._accessible(storage, "Pending", STORAGE_ACCESSOR_PENDING, message)
        message = f"{holder} holds the storage; its files are served again when it is free"
        return self._accessible(storage, "Pending", STORAGE_ACCESSOR_YIELDED, message)

    async def _ensure(self, storage: GPUStorage, claim: PersistentVolumeClaim) -> Workload:
        """Creates the policy first: the pod is never reachable without it."""
        policy = resources.network_policy(storage, self.settings)
        await self.children.ensure(storage, NETWORK_POLICIES, policy, self.caches.policies)
        await self.children.ensure(storage, SERVICES, resources.service(storage), self.caches.services)
        wanted = resources.deployment(storage, claim.metadata.name, self.settings)
        made = await self.children.ensure(storage, DEPLOYMENTS, wanted, self.caches.deployments)
        return self.caches.workload(storage.metadata, made)

    def _reported(self, storage: GPUStorage, workload: Workload) -> Accessible:
        if workload.complete:
            return self._accessible(storage, "Ready", STORAGE_ACCESSOR_READY, "its files are served for reading")
        if (failure := workload.failure) is not None:
            return self._accessible(storage, "Failed", STORAGE_ACCESSOR_FAILED, failure)
        return self._accessible(storage, "Pending", STORAGE_ACCESSOR_PENDING, workload.progress)

    def _accessible(
        self, storage: GPUStorage, phase: AccessorPhase, reason: str, message: str, requeue_after: float | None = None
    ) -> Accessible:
        state = Condition.true if phase == "Ready" else Condition.false
        condition = state(ACCESSOR_READY, reason, message, storage.metadata.generation)
        if phase == "Disabled":
            return Accessible(AccessorStatus(phase=phase), condition)
        # The status always names the address: while the files are not served, the proxy says why.
        status = AccessorStatus(
            phase=phase,
            serviceName=resources.accessor_key(storage).name,
            accessURL=resources.access_url(storage, self.settings),
        )
        return Accessible(status, condition, requeue_after)

    async def _end_pod(self, storage: GPUStorage) -> None:
        key = resources.accessor_key(storage)
        await self.children.remove(storage, DEPLOYMENTS, key, self.caches.deployments)

    async def end(self, storage: GPUStorage) -> bool:
        """Deletes the Deployment; True when live reads show no Deployment, no ReplicaSet and no pod.

        The order of the reads matters: a Deployment makes ReplicaSets, and a ReplicaSet makes pods.
        """
        try:
            live = await self.client.get(DEPLOYMENTS, resources.accessor_key(storage))
        except NotFound:
            live = None
        if live is not None and _is_of(storage, live):
            await self._delete(live.metadata)
            return False
        labels = ",".join(f"{name}={value}" for name, value in resources.selector(storage).items())
        namespace = storage.metadata.namespace
        replica_sets = await self.client.list(Query(REPLICA_SETS, namespace, labels))
        pods = await self.client.list(Query(PODS, namespace, labels))
        return not (replica_sets.items or replica_sets.skipped or pods.items or pods.skipped)

    async def _delete(self, deployment: ObjectMeta) -> None:
        with suppress(NotFound):
            uid, version = deployment.uid, deployment.resourceVersion
            await self.client.delete(DEPLOYMENTS, deployment.key, uid=uid, resource_version=version)


def _is_of(storage: GPUStorage, live: Deployment) -> bool:
    """Whether the pods of this Deployment mount the volume of the storage.

    `kubectl delete gpustorage --cascade=orphan` removes the owner reference. The pods that are left would keep the
    storage for ever, and their selector still names its UID.
    """
    orphaned = live.metadata.controller is None and live.spec.selector.matchLabels == resources.selector(storage)
    return orphaned or is_controlled_by(live.metadata, storage.metadata)


def is_out_of_the_way(storage: GPUStorage) -> bool:
    """Whether no pod serves the files of the storage, so that a unit's pod can have the volume on any node."""
    condition = find_condition(storage.status.conditions, ACCESSOR_READY)
    return condition is None or condition.reason in (STORAGE_ACCESSOR_DISABLED, STORAGE_ACCESSOR_YIELDED)


def _has_yielded(storage: GPUStorage) -> bool:
    condition = find_condition(storage.status.conditions, ACCESSOR_READY)
    return condition is not None and condition.reason == STORAGE_ACCESSOR_YIELDED
